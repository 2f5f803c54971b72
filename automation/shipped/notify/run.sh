#!/bin/sh
# Tells a person of an event: on the desktop, by mail, or by a webhook. Its manifest describes the
# settings. Nothing of an event is ever part of a command, but as a whole argument behind "--".

PATH=$PATH:/usr/sbin:/usr/lib:/usr/local/sbin   # where sendmail is
REMEMBERED=200
request=$(cat)

json() { LC_ALL=C awk -f "${0%/*}/json.awk" "$@"; }
of_request() { printf '%s' "$request" | json "$@"; }
field() { of_request want="$1"; }
quoted() { printf '%s' "$1" | json mode=quote; }
first_bytes() { printf '%s' "$2" | json mode=first size="$1"; }

# Ends with an error that another attempt may mend, perhaps after a pause in seconds, or not.
try_again() { answer_error "$1" "true${2:+, \"retry_after_s\": $2}"; exit 0; }
give_up() { answer_error "$1" false; exit 0; }
misconfigured() { answer_error "$1" false; exit 78; }
answer_error() {
    printf '{"status": "error", "error": %s, "retry": %s}\n' "$(quoted "$1")" "$2"
}

# A colon, and the beginning of what a file says, in one line; nothing, where it says nothing.
words_of() {
    words=$(head -c 500 "$1" | iconv -c -f UTF-8 -t UTF-8 2>/dev/null | tr -s '\000-\040\177' ' ' | sed 's/^ //; s/ $//')
    printf '%s' "${words:+: $words}"
}

# Sets $setting to a setting, which has to be a text; control characters are left out.
setting() {
    setting=$(field "config.$1" | tr -d '\000-\037\177')
    case $(of_request mode=kind want="config.$1") in
        other) [ -z "$setting" ] || misconfigured "$1: write a text" ;;
        *) ;;
    esac
}

needs() {
    command -v "$1" >/dev/null || misconfigured "via: $via needs the program $1, which is not here"
}

check_settings() {
    setting via && via=$setting
    setting to && to=$setting
    setting from && from=$setting
    setting url && url=$setting
    setting body && body=$setting
    setting authorization && authorization=$setting
    setting title && own_title=$setting
    timeout_s=$(field config.timeout_s)
    case ${timeout_s:=20} in
        *[!0-9]* | 0* | ????*) misconfigured "timeout_s: write a number from 1 to 999" ;;
    esac
    case $via in
        desktop) needs notify-send ;;
        mail)
            case $to in
                -* | *[!A-Za-z0-9._%+@-]*) misconfigured "to: write one address, such as me@example.org" ;;
                ?*) ;;
                *) misconfigured "to: write the address that gets the mail" ;;
            esac
            case $from in
                -* | *[!A-Za-z0-9._%+@-]*) misconfigured "from: write one address" ;;
            esac
            needs sendmail
            ;;
        webhook)
            case $url in
                *[\"\\\ ]*) misconfigured "url: write what is no plain letter as %XX" ;;
                http://?* | https://?*) ;;
                *) misconfigured "url: write http://… or https://…" ;;
            esac
            case $authorization in
                *[\"\\]*) misconfigured "authorization: it has a quote or a backslash" ;;
            esac
            case ${body:=event} in
                event | text) ;;
                *) misconfigured "body: write event or text" ;;
            esac
            needs curl
            ;;
        *) misconfigured "via: write desktop, mail or webhook, not $via" ;;
    esac
}

# The first of these fields of the payload that says anything.
first_of() {
    for name; do
        said=$(field "event.payload.$name")
        [ -z "$said" ] || break
    done
    printf '%s' "$said"
}

read_event() {
    event_type=$(field event.type) source=$(field event.source)
    title=${own_title:-$(first_of title)}
    title=$(first_bytes 500 "${title:-"$event_type of $source"}")
    text=$(first_of text message summary result error)
    [ -n "$text" ] || text=$(field event.payload)
    link=$(field event.payload.url)
    [ -z "$link" ] || text="$text
$link"
}

# What names an event: the same one may come in several jobs. A dedupe key names what it is about,
# and only for a time, which the service knows.
event_key() {
    key=$(field event.event_id)
    [ -n "$key" ] || key=$(field job_id)
    printf '%s' "$key" | tr -d '\000-\037\177'
}

send_desktop() {
    if [ -z "$DBUS_SESSION_BUS_ADDRESS" ] && [ -S "$XDG_RUNTIME_DIR/bus" ]; then
        export DBUS_SESSION_BUS_ADDRESS="unix:path=$XDG_RUNTIME_DIR/bus"
    fi
    # A desktop shows no more, and an argument has 128 KiB at most.
    notify-send -- "$title" "$(first_bytes 4000 "$text")" >"$folder/said" 2>&1 ||
        try_again "notify-send ends with exit code $?$(words_of "$folder/said")"
}

send_mail() {
    {
        [ -z "$from" ] || printf 'From: %s\n' "$from"
        printf 'To: %s\n' "$to"
        printf 'Subject: %s\n' "$(printf '%s' "$title" | json mode=header)"
        printf 'Auto-Submitted: auto-generated\nMIME-Version: 1.0\n'
        printf 'Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n'
        printf '%s\n' "$text" | base64 | tr -d '\n' | fold -w 76
        printf '\n'
    } | sendmail -i ${from:+-f "$from"} -- "$to" >"$folder/said" 2>&1
    code=$?
    case $code in
        0) ;;
        64 | 65 | 67 | 68 | 78)
            give_up "sendmail refuses it, with exit code $code$(words_of "$folder/said")"
            ;;
        *) try_again "sendmail ends with exit code $code$(words_of "$folder/said")" ;;
    esac
}

# The address and the header are told by stdin: others see arguments.
send_webhook() {
    if [ "$body" = text ]; then
        sent="{\"text\": $(quoted "$title
$text")}"
    else
        sent="{\"title\": $(quoted "$title"), \"text\": $(quoted "$text"),"
        sent="$sent \"event\": $(of_request mode=raw want=event)}"
    fi
    printf '%s' "$sent" >"$folder/content"
    {
        {
            printf 'url = "%s"\n' "$url"
            printf 'header = "Idempotency-Key: %s"\n' "$(printf '%s' "$key" | tr -c 'A-Za-z0-9:._\n-' _)"
            [ -z "$authorization" ] || printf 'header = "Authorization: %s"\n' "$authorization"
        } | curl --config - --silent --show-error --globoff --proto =http,https --max-time "$timeout_s" \
            --header 'Content-Type: application/json' --data-binary "@$folder/content" \
            --dump-header "$folder/headers" 2>"$folder/said"
        echo $? >"$folder/code"
    } | {
        head -c 500 >"$folder/answer"
        cat >/dev/null # of a longer answer curl would not hear the end
    }
    [ "$(cat "$folder/code")" = 0 ] || try_again "the webhook can't be reached$(words_of "$folder/said")"
    status=$(tr -d '\r' <"$folder/headers" | awk '/^HTTP\// { status = $2 } END { print status }')
    answered="the webhook answers $status$(words_of "$folder/answer")"
    case $status in
        2??) ;;
        408 | 425 | 429 | 5??) try_again "$answered" "$(retry_after)" ;;
        3??) misconfigured "url: the webhook answers $status; write where it leads to" ;;
        *) give_up "$answered" ;;
    esac
}

# The pause that the webhook asks for, in seconds: an hour at most; nothing where it names none.
retry_after() {
    tr -d '\r' <"$folder/headers" |
        awk 'tolower($1) == "retry-after:" && $2 ~ /^[0-9]+$/ { print ($2 + 0 > 3600 ? 3600 : $2 + 0); exit }'
}

# The keys that were sent, the newest first, as a list of JSON.
remembered() {
    {
        printf '%s\n' "$key"
        field state.sent
    } | head -n $REMEMBERED
}

handle() {
    key=$(event_key)
    if field state.sent | grep -qxF -e "$key"; then
        printf '{"status": "ok", "result": "it was sent before"}\n'
        return
    fi
    read_event
    folder=$(mktemp -d) || try_again "no folder can be made for what $via says"
    trap 'rm -rf "$folder"' EXIT
    "send_$via"
    printf '{"status": "ok", "result": %s, "state_updates": {"sent": %s}}\n' \
        "$(quoted "sent by $via: $title")" "$(quoted "$(remembered)")"
}

protocol=$(field protocol) || exit 78
if [ "$protocol" != 2 ]; then
    echo "the request is of protocol $protocol; this plugin speaks protocol 2" >&2
    exit 78
fi
check_settings
case $(field command) in
    handle) handle ;;
    health) printf '{"status": "ok", "result": "%s is ready"}\n' "$via" ;;
    init) printf '{"status": "ok", "result": "the configuration is right"}\n' ;;
esac
