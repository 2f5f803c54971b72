"""Searching in scripts without blanks, and in text that mixes scripts."""

from collections.abc import Iterator

import pytest

from ackbus import Bus, Draft
from ackbus.bus.search.text import spread

#: By script: a text, parts of it that are found, and what is not in it though its letters are.
TEXTS = {
    "Chinese": (
        "数据库迁移失败\uff0c请检查日志",
        ["数据库", "数据", "据", "志", "迁移失败", "请检查日志", "失败\uff0c请", "数据库*"],
        ["据数", "库失败", "数据库 失败", "数志"],
    ),
    "Japanese": (
        "承認フローのテストが失敗しました",
        ["テスト", "承認", "フロー", "失敗", "た", "しました", "テストが失敗"],
        ["ストテ", "認承", "テスト失敗"],
    ),
    "Kana in halves": ("ﾃｽﾄ失敗", ["ﾃｽﾄ", "失敗", "ﾄ失"], ["ｽﾃ"]),
    "Kana in halves, asked for whole": (
        "ﾃﾞｰﾀﾍﾞｰｽの移行",
        ["データベース", "ﾃﾞｰﾀﾍﾞｰｽ", "ベース", "ﾍﾞｰｽの移行", "データベースの"],
        ["テータ", "ヘース"],
    ),
    "wide Latin": (
        "\uff45\uff52\uff52\uff4f\uff52 \uff15\uff10\uff13が出た",
        ["error", "503", "\uff45\uff52\uff52\uff4f\uff52", "ERR*", "503が"],
        ["rror", "50"],
    ),
    "Korean": (
        "데이터베이스를 옮기지 못했습니다",
        ["데이터베이스", "데이터", "못했습니다", "데이터베이스를 옮기지"],
        ["터데", "데이터 못했"],
    ),
    "Thai": ("การเชื่อมต่อล้มเหลว", ["เชื่อมต่อ", "ล้มเหลว", "การ", "ว"], ["เหลวล้ม", "เชือม"]),
    "Burmese": ("စာရင်းမှားနေသည်", ["မှား", "စာရင်း"], ["မှာ်"]),
    "Khmer": ("ការធ្វើតេស្តបរាជ័យ", ["តេស្ត", "បរាជ័យ"], ["ស្តតេ"]),
    "Lao": ("ການທົດສອບລົ້ມເຫຼວ", ["ທົດສອບ", "ການ"], ["ສອບທົດ"]),
    "Han of later planes": ("请见𠮷野家𰀀报告", ["𠮷野", "𠮷", "𰀀报告"], ["野𠮷"]),
    "mixed": (
        "修复src/auth.py的登录错误v2版本",
        ["auth.py", "auth", "src/auth.py", "登录", "py的登录", "修复src", "v2", "v2版本", "复 src"],
        ["au", "uth", "登录v2", "src的"],
    ),
    "Hindi": ("डेटाबेस विफल हुआ", ["डेटाबेस", "विफल", "डेटा*"], ["डाटाबेस", "डेटा", "टा"]),
    "Latin": (
        "die Überprüfung ist fertig",
        ["uberprufung", "fertig", "über*"],
        ["prüfung", "fert"],
    ),
    "Cyrillic": ("ошибка базы данных", ["ошибка", "базы данных"], ["шибка"]),
    "accents apart": ("cafe\u0301 ⚠\ufe0fdisk", ["café", "cafe", "disk"], ["caf"]),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """A bus with a message for each text, its seq by their order."""
    with Bus.init(tmp_path_factory.mktemp("scripts") / ".worker-state") as opened:
        opened.publish_many(Draft("note", text, from_agent="a") for text, _, _ in TEXTS.values())
        yield opened


def seqs(bus: Bus, *words: str) -> list[int]:
    return [found.message.seq for found in bus.search(*words)]


CASES = [
    (number, words, is_there)
    for number, (_, there, absent) in enumerate(TEXTS.values(), 1)
    for each, is_there in ((there, True), (absent, False))
    for words in each
]


@pytest.mark.parametrize(("number", "words", "is_there"), CASES)
def test_part_of_a_text_is_found(filled: Bus, number: int, words: str, is_there: bool) -> None:
    assert (number in seqs(filled, words)) is is_there


@pytest.mark.parametrize("name", ["Chinese", "Japanese", "Thai", "Khmer"])
def test_part_of_any_length_and_place_is_found_and_marked(filled: Bus, name: str) -> None:
    text = TEXTS[name][0]
    ends = ((start, end) for end in range(len(text) + 1) for start in range(end))
    for part in {text[start:end] for start, end in ends}:
        if part[0].isalnum() and part[-1].isalnum():
            (snippet,) = (f for f in filled.search(part) if f.message.payload == text)
            assert part in [snippet.snippet[slice(*mark)] for mark in snippet.marks]


def test_text_of_other_scripts_is_indexed_as_it_is() -> None:
    for text in (
        "the disk is full",
        "die Überprüfung: fertig…",
        "ошибка базы",
        "विफल हुआ",
        "✅ ok",
    ):
        assert spread(text) == text
