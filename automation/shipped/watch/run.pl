#!/usr/bin/env perl
# Publishes what has changed in files or in a git repository since the last look; its manifest
# describes the settings.
#
# Its state is what the last look has seen: of files inode, size and time, of refs their commits. It
# belongs to a path: another one begins without any. It is stored with the events, so that none needs
# a dedupe key: a ref that goes back and forth is told of each time.
use strict;
use warnings;
use Encode qw(decode FB_PERLQQ LEAVE_SRC);
use Fcntl qw(:mode);
use JSON::PP ();
use POSIX qw(strftime);
use Time::HiRes qw(lstat);

use constant {
    PROTOCOL  => 2,
    EX_CONFIG => 78,
    # A state has 1 MB: this leaves room for the rest of it.
    MAX_STATE_BYTES => 900_000,
    MAX_COMMITS     => 50,
    MAX_SAID_CHARS  => 500,
    USUAL_REFS      => [qw(refs/heads refs/tags refs/remotes)],
};

my $JSON = JSON::PP->new->utf8->canonical->allow_nonref;

# Failures are hashes: what is wrong, whether another attempt may work, the exit code.
sub misconfigured { die { error => $_[0], retry => 0, code => EX_CONFIG } }
sub try_again     { die { error => $_[0], retry => 1, code => 0 } }

sub text_of { decode('UTF-8', $_[0], FB_PERLQQ | LEAVE_SRC) }

# Settings ------------------------------------------------------------------------------------------

sub settings {
    my ($config) = @_;
    my %set = (
        path       => text_setting($config, 'path'),
        include    => list_setting($config, 'include'),
        exclude    => list_setting($config, 'exclude'),
        refs       => list_setting($config, 'refs'),
        git        => truth_setting($config, 'git'),
        fetch      => truth_setting($config, 'fetch'),
        max_events => $config->{max_events} // 500,
    );
    misconfigured('path: write where the files or the repository are') if $set{path} eq '';
    misconfigured('path: write it from the root on, as /srv/incoming') if $set{path} !~ m{^/};
    misconfigured('max_events: write a number from 1 to 5000')
        if $set{max_events} !~ /^[1-9][0-9]{0,3}$/ || $set{max_events} > 5000;
    misconfigured('fetch and refs are of repositories: write git: true')
        if !$set{git} && ($set{fetch} || @{ $set{refs} });
    misconfigured('include and exclude are of files: leave them out, or git: true')
        if $set{git} && (@{ $set{include} } || @{ $set{exclude} });
    for my $ref (@{ $set{refs} }) {
        misconfigured("refs: $ref: write a name, as refs/heads/main") if $ref !~ m{^refs/[^\s*?\[]*$};
    }
    $set{place} = $set{path};
    utf8::encode($set{path});    # paths are bytes
    $set{path} =~ s{(?<=.)/+$}{};
    return \%set;
}

sub text_setting {
    my ($config, $name) = @_;
    my $value = $config->{$name} // '';
    misconfigured("$name: write a text") if ref $value;
    return $value;
}

sub list_setting {
    my ($config, $name) = @_;
    my $value = $config->{$name} // [];
    misconfigured("$name: write a list of texts")
        if ref $value ne 'ARRAY' || grep { ref || !defined } @$value;
    return $value;
}

sub truth_setting {
    my ($config, $name) = @_;
    my $value = $config->{$name} // 0;
    misconfigured("$name: write true or false") if defined $config->{$name} && !JSON::PP::is_bool($value);
    return $value ? 1 : 0;
}

# Files ---------------------------------------------------------------------------------------------

# Returns the ordinary files at the path: by name from the folder on, "." for the path itself.
sub files {
    my ($set) = @_;
    my ($include, $exclude) = map { patterns($_) } @$set{qw(include exclude)};
    my @stat = lstat $set->{path};
    unless (@stat) {
        return {} if $!{ENOENT} && -d parent($set->{path});    # a file that is not there yet
        misconfigured("path: $set->{place}: $!") if $!{ENOENT} || $!{ENOTDIR} || $!{ELOOP};
        try_again("$set->{place} can't be read: $!");
    }
    return { '.' => \@stat } if S_ISREG($stat[2]);
    misconfigured("path: $set->{place} is neither a file nor a folder") unless S_ISDIR($stat[2]);
    my (%found, @folders);
    push @folders, '';
    while (defined(my $folder = pop @folders)) {
        my $at = $folder eq '' ? $set->{path} : "$set->{path}/$folder";
        opendir my $handle, $at or do {
            next if $folder ne '' && $!{ENOENT};    # it has gone meanwhile
            try_again(text_of($at) . " can't be read: $!");
        };
        for my $name (grep { $_ ne '.' && $_ ne '..' } readdir $handle) {
            my $file = $folder eq '' ? $name : "$folder/$name";
            my @of_file = lstat "$at/$name" or next;
            next if $exclude && ($name =~ $exclude || $file =~ $exclude);
            if (S_ISDIR($of_file[2])) { push @folders, $file }
            elsif (S_ISREG($of_file[2])) {
                next if $include && $name !~ $include && $file !~ $include;
                $found{$file} = \@of_file;
            }
        }
        closedir $handle;
    }
    return \%found;
}

sub parent { $_[0] =~ m{^(.*)/} && $1 ne '' ? $1 : '/' }

# Returns one expression for a list of patterns, or nothing for an empty list.
sub patterns {
    my ($list) = @_;
    return undef unless @$list;
    my @parts = map {
        my $pattern = $_;
        utf8::encode($pattern);
        join '', map { $_ eq '*' ? '.*' : $_ eq '?' ? '.' : quotemeta } split /([*?])/, $pattern;
    } @$list;
    my $all = join '|', @parts;
    return qr/\A(?:$all)\z/s;
}

sub poll_files {
    my ($set, $state) = @_;
    my $before = $state->{files};
    my $files  = files($set);
    my (%now, %stat_of);
    while (my ($file, $stat) = each %$files) {
        my $name = text_of($file);
        $now{$name} = sprintf '%d:%d:%.6f', @$stat[1, 7, 9];
        $stat_of{$name} = $stat;
    }
    my ($events, $after) = differences($set, $before, \%now, sub {
        my ($name, $what) = @_;
        return file_event($set, $name, $what, $stat_of{$name});
    });
    check_size($after, 'watch a smaller folder, or write include');
    return (answer($set, $before, $events, scalar(keys %now) . ' files'), files => $after);
}

sub file_event {
    my ($set, $name, $what, $stat) = @_;
    my %payload = (path => $name eq '.' ? $set->{place} : "$set->{place}/$name");
    ($payload{name}) = $payload{path} =~ m{([^/]*)$};
    if ($stat) {
        $payload{size}     = $stat->[7] + 0;
        $payload{modified} = strftime('%Y-%m-%dT%H:%M:%SZ', gmtime int $stat->[9]);
    }
    my $type = { added => 'file.added', moved => 'file.changed', gone => 'file.removed' }->{$what};
    return { type => $type, payload => \%payload };
}

# Git -----------------------------------------------------------------------------------------------

# What git said of its last failure: a colon, and its words in a line; or nothing.
my $SAID = '';

# Returns what git prints, or nothing where it fails; the arguments come to no shell.
sub git {
    my ($set, @words) = @_;
    local $ENV{GIT_TERMINAL_PROMPT} = 0;
    local $ENV{GIT_OPTIONAL_LOCKS}  = 0;
    local $ENV{LC_ALL}              = 'C';
    my @command = ('git', '-C', $set->{path}, @words);
    open my $words, '+>', undef     or try_again("no file can be made for what git says: $!");
    open my $own,   '>&', \*STDERR  or try_again("stderr can't be kept: $!");
    open STDERR,    '>&', $words    or try_again("stderr can't be turned: $!");
    my $is_run = open my $out, '-|', @command;
    my $error  = $!;
    open STDERR, '>&', $own or try_again("stderr can't be turned back: $!");
    misconfigured("git can't be run: $error") unless $is_run;
    local $/;
    my $printed = <$out> // '';
    return $printed if close $out;
    seek $words, 0, 0;
    $SAID = substr text_of(join ' ', split ' ', <$words> // ''), 0, MAX_SAID_CHARS;
    $SAID =~ s{//[^/\s@]+@}{//}g;    # an address may hold a password
    $SAID = ": $SAID" if length $SAID;
    return undef;
}

sub check_repository {
    my ($set) = @_;
    misconfigured("path: there is no folder $set->{place}") unless -d $set->{path};
    defined git($set, 'rev-parse', '--git-dir')
        or misconfigured("path: $set->{place} is no git repository, or another user's$SAID");
}

sub refs {
    my ($set) = @_;
    my @beginnings = @{ $set->{refs} } ? @{ $set->{refs} } : @{ +USUAL_REFS };
    utf8::encode($_) for @beginnings;
    my $printed = git($set, 'for-each-ref', '--format=%(objectname) %(refname)%(if)%(symref)%(then) link%(end)', @beginnings);
    try_again("the refs of $set->{place} can't be read$SAID") unless defined $printed;
    return { map { /^([0-9a-f]+) (\S+)$/ ? (text_of($2) => $1) : () } split /\n/, $printed };
}

sub poll_git {
    my ($set, $state) = @_;
    check_repository($set);
    if ($set->{fetch} && !defined git($set, qw(fetch --quiet --all --tags --prune))) {
        try_again("git fetch failed in $set->{place}$SAID");
    }
    my ($before, $now) = ($state->{refs}, refs($set));
    my ($events, $after) = differences($set, $before, $now, sub {
        my ($ref, $what) = @_;
        return ref_event($set, $ref, $what, $before, $now->{$ref});
    });
    check_size($after, 'write refs');
    return (answer($set, $before, $events, scalar(keys %$now) . ' refs'), refs => $after);
}

sub ref_event {
    my ($set, $ref, $what, $all_before, $after) = @_;
    my $before  = $all_before->{$ref};
    my %payload = (repository => $set->{place}, ref => $ref, before => $before, after => $after);
    if (defined $after) {
        my $is_ahead = defined $before && defined git($set, 'merge-base', '--is-ancestor', $before, $after);
        $payload{forced} = defined $before && !$is_ahead ? JSON::PP::true : JSON::PP::false;
        @payload{qw(count commits)} = commits($set, $after, defined $before ? [$before] : [values %$all_before]);
    }
    my $type = { added => 'created', moved => 'moved', gone => 'removed' }->{$what};
    return { type => "git.ref.$type", payload => \%payload };
}

# Returns how many commits are new, and the newest of them.
sub commits {
    my ($set, $after, $known) = @_;
    my @there = grep { defined git($set, 'cat-file', '-e', "$_^{commit}") } @$known;
    my @range = ($after, map { "^$_" } @there);
    my $count = git($set, 'rev-list', '--count', @range);
    return (0, []) unless defined $count;    # a tag of something else than a commit
    my $log = git($set, 'log', '-z', '--no-show-signature', '--format=%H%n%an%n%cI%n%s', '-n', MAX_COMMITS, @range);
    my @commits = map {
        my ($id, $author, $time, $subject) = map { text_of($_) } split /\n/, $_, 4;
        { id => $id, author => $author, time => $time, subject => $subject // '' };
    } split /\0/, $log // '';
    return ($count + 0, \@commits);
}

# Both ----------------------------------------------------------------------------------------------

# Returns the events of what differs, and the state after them, which has only what was told of.
sub differences {
    my ($set, $before, $now, $event_of) = @_;
    return ([], $now) unless $before;    # the first look
    my (@events, %after);
    %after = %$before;
    for my $name (sort keys %{ { %$before, %$now } }) {
        my ($old, $new) = ($before->{$name}, $now->{$name});
        next if defined $old && defined $new && $old eq $new;
        last if @events >= $set->{max_events};
        my $what = !defined $old ? 'added' : !defined $new ? 'gone' : 'moved';
        push @events, $event_of->($name, $what);
        if   (defined $new) { $after{$name} = $new }
        else                { delete $after{$name} }
    }
    return (\@events, \%after);
}

sub check_size {
    my ($state, $advice) = @_;
    my $bytes = length $JSON->encode($state);
    misconfigured("path: there is too much to remember, $bytes bytes: $advice") if $bytes > MAX_STATE_BYTES;
}

sub answer {
    my ($set, $before, $events, $what) = @_;
    my $count = @$events;
    my $more  = $count >= $set->{max_events} ? '; the others come with the next look' : '';
    my $result = $before ? "$count changes among $what$more" : "the first look: $what";
    return (result => $result, events => $events);
}

sub poll {
    my ($set, $state) = @_;
    my $kind  = $set->{git} ? 'git' : 'files';
    my $place = "$kind $set->{place}";
    $state = {} if ($state->{place} // '') ne $place;
    my %found = $set->{git} ? poll_git($set, $state) : poll_files($set, $state);
    my %answer = (result => delete $found{result}, events => delete $found{events});
    # Null takes away what another path has left.
    $answer{state_updates} = { place => $place, files => undef, refs => undef, %found };
    return \%answer;
}

sub health {
    my ($set) = @_;
    if ($set->{git}) {
        check_repository($set);
        return { result => scalar(keys %{ refs($set) }) . ' refs' };
    }
    return { result => scalar(keys %{ files($set) }) . ' files' };
}

sub init { return { result => 'the configuration is right' } }

sub main {
    local $/;
    my $request  = $JSON->decode(scalar <STDIN>);
    my $protocol = $request->{protocol} // '';
    if ($protocol ne PROTOCOL) {
        print STDERR "the request is of protocol $protocol; this plugin speaks protocol ", PROTOCOL, "\n";
        return EX_CONFIG;
    }
    my %commands = (poll => \&poll, health => \&health, init => \&init);
    my $code     = 0;
    my $response = eval {
        my $set = settings($request->{config} // {});
        { status => 'ok', %{ $commands{ $request->{command} }->($set, $request->{state} // {}) } };
    };
    if (!$response) {
        my $failure = $@;
        die $failure unless ref $failure;
        $code     = $failure->{code};
        $response = {
            status => 'error',
            error  => $failure->{error},
            retry  => $failure->{retry} ? JSON::PP::true : JSON::PP::false,
        };
    }
    print $JSON->encode($response), "\n";
    return $code;
}

exit main();
