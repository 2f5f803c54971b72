# Reads JSON, and prints what stands at a path; or quotes a text as JSON; or encodes a header of mail.
#
#   awk -f json.awk want=event.payload.title   the value: of a string its text, else its JSON;
#                                              nothing where there is none, or null
#   awk -f json.awk mode=kind want=...         string, other, or nothing
#   awk -f json.awk mode=raw want=...          its JSON
#   awk -f json.awk mode=quote                 all of stdin as a string of JSON
#   awk -f json.awk mode=first size=500        the first bytes of stdin, in whole characters
#   awk -f json.awk mode=header                all of stdin as one line of a header, by RFC 2047
#
# For any awk; run it with LC_ALL=C, where a character is a byte. Long texts are built of pieces of
# PIECE characters: each step copies what it adds to.

BEGIN { PIECE = 4096 }

{
    lines = lines (NR > 1 ? "\n" : "") $0
    if (length(lines) > PIECE) { text = text lines; lines = "" }
}

END {
    text = text lines
    for (i = 0; i < 256; i++) code[sprintf("%c", i)] = i
    if (mode == "quote") print quoted(text)
    else if (mode == "first") print first(text, size)
    else if (mode == "header") print header(text)
    else {
        at = 1
        value("")
        space()
        if (at <= length(text)) fail()
        if (mode == "kind") print found ? (is_text ? "string" : "other") : ""
        else if (mode == "raw") print found ? raw : ""
        else if (found && raw != "null") print is_text ? result : raw
    }
    exit failed
}

function fail() {
    if (!failed) print "json.awk: this is no JSON, from character " at " on" > "/dev/stderr"
    failed = 65
    at = length(text) + 1
}

function space() {
    while (at <= length(text) && index(" \t\r\n", substr(text, at, 1))) at++
}

# Reads the value at a path; the one that is wanted is kept.
function value(path,    begin, character, string) {
    space()
    begin = at
    character = substr(text, at, 1)
    string = character == "\""
    if (string) last = string_()
    else if (character == "{") object(path)
    else if (character == "[") list(path)
    else word()
    if (path == want) {
        found = 1
        is_text = string
        raw = substr(text, begin, at - begin)
        if (string) result = last
    }
}

function object(path,    name, character) {
    at++
    space()
    if (substr(text, at, 1) == "}") { at++; return }
    while (at <= length(text)) {
        space()
        if (substr(text, at, 1) != "\"") return fail()
        name = string_()
        space()
        if (substr(text, at++, 1) != ":") return fail()
        value(path == "" ? name : path "." name)
        space()
        character = substr(text, at++, 1)
        if (character == "}") return
        if (character != ",") return fail()
    }
    fail()
}

function list(path,    number, character) {
    at++
    space()
    if (substr(text, at, 1) == "]") { at++; return }
    while (at <= length(text)) {
        value(path "[" number++ "]")
        space()
        character = substr(text, at++, 1)
        if (character == "]") return
        if (character != ",") return fail()
    }
    fail()
}

function word(    begin) {
    begin = at
    while (at <= length(text) && substr(text, at, 1) ~ /[-+.0-9A-Za-z]/) at++
    if (substr(text, begin, at - begin) !~ /^(true|false|null|-?[0-9][-+.0-9eE]*)$/) fail()
}

function string_(    built, part, piece) {
    at++
    while (at <= length(text)) {
        piece = substr(text, at, 1024)
        if (!match(piece, /["\\]/)) RSTART = length(piece) + 1
        part = part substr(piece, 1, RSTART - 1)
        at += RSTART - 1
        if (RSTART <= length(piece)) {
            if (substr(piece, RSTART, 1) == "\"") { at++; return built part }
            part = part escaped(substr(text, at + 1, 1))
        }
        if (length(part) > PIECE) { built = built part; part = "" }
    }
    fail()
}

# Returns what an escape stands for, and goes on behind it.
function escaped(letter,    number) {
    at += 2
    if (letter == "n") return "\n"
    if (letter == "t") return "\t"
    if (letter == "r") return "\r"
    if (letter == "b") return "\b"
    if (letter == "f") return "\f"
    if (letter != "u") return letter
    number = hex(substr(text, at, 4))
    at += 4
    if (number >= 55296 && number < 56320 && substr(text, at, 2) == "\\u") {
        number = 65536 + (number - 55296) * 1024 + hex(substr(text, at + 2, 4)) - 56320
        at += 6
    }
    return utf8(number)
}

function hex(digits,    i, number) {
    for (i = 1; i <= 4; i++)
        number = number * 16 + index("0123456789abcdef", tolower(substr(digits, i, 1))) - 1
    return number
}

function utf8(number) {
    if (number < 1) return ""
    if (number < 128) return sprintf("%c", number)
    if (number < 2048) return sprintf("%c%c", 192 + int(number / 64), 128 + number % 64)
    if (number < 65536)
        return sprintf("%c%c%c", 224 + int(number / 4096), 128 + int(number / 64) % 64, \
            128 + number % 64)
    return sprintf("%c%c%c%c", 240 + int(number / 262144), 128 + int(number / 4096) % 64, \
        128 + int(number / 64) % 64, 128 + number % 64)
}

function quoted(plain,    i, character, part, built) {
    for (i = 1; i <= length(plain); i++) {
        character = substr(plain, i, 1)
        if (character == "\"" || character == "\\") part = part "\\" character
        else if (code[character] < 32) part = part sprintf("\\u%04x", code[character])
        else part = part character
        if (length(part) > PIECE) { built = built part; part = "" }
    }
    return "\"" built part "\""
}

function first(plain, size) {
    if (length(plain) <= size) return plain
    plain = substr(plain, 1, size)
    sub(/[\300-\377][\200-\277]*$/, "", plain)
    return plain
}

# Encoded words of 75 characters at most, none of which parts a character.
function header(plain,    i, character, encoded, built, piece) {
    gsub(/[\001-\037\177]+/, " ", plain)
    plain = first(plain, 400)
    if (plain !~ /[\200-\377]/ && plain !~ /=\?/ && length(plain) < 70) return plain
    for (i = 1; i <= length(plain); i++) {
        character = substr(plain, i, 1)
        piece = character ~ /[A-Za-z0-9]/ ? character : sprintf("=%02X", code[character])
        if (length(encoded) > 40 && (code[character] < 128 || code[character] > 191)) {
            built = built "=?UTF-8?Q?" encoded "?=\n "
            encoded = ""
        }
        encoded = encoded piece
    }
    return built "=?UTF-8?Q?" encoded "?="
}
