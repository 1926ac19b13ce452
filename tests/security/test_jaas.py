"""JAAS texts as Kafka's JaasConfig reads them. The results were compared with those of Kafka 4.3.1."""

import pytest

from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security.jaas import JaasEntry, format_jaas, login_section, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options(text: str) -> dict[str, str]:
    return {name: secret.reveal() for name, secret in parse_jaas(text).options.items()}


def test_module_flag_and_options():
    entry = parse_jaas(f'{PLAIN} required username="alice" password="a b;c";')
    assert (entry.module, entry.flag) == (PLAIN, "required")
    assert entry.required("username") == "alice"
    assert entry.required("password") == "a b;c"
    assert entry.option("tokenauth") is None


@pytest.mark.parametrize("flag", ["required", "REQUISITE", "Sufficient", "optional"])
def test_flags_in_any_case(flag: str):
    assert parse_jaas(f"M {flag};").flag == flag.lower()


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"pw"', "pw"),
        ("'pw'", "pw"),
        ("'it\"s'", 'it"s'),
        (r'"a\"b"', 'a"b'),
        (r'"a\\b"', "a\\b"),
        (r'"a\tb\nc"', "a\tb\nc"),
        (r'"\101\60\477\8"', "A0'78"),
        (r'"\u0041\x\$"', "u0041x$"),
        ('"/etc//x/*y*/"', "/etc//x/*y*/"),
        ('"#%=;{}"', "#%=;{}"),
        ('"pässwörd"', "pässwörd"),
        ('""', ""),
        ("word", "word"),
        ("a-b.c_d$1", "a-b.c_d$1"),
        ("_x", "_x"),
        ("$x", "$x"),
        ("é1", "é1"),
        ("true", "true"),
        ('"cut\n', "cut"),  # a quoted text ends with its line
    ],
)
def test_values(written: str, value: str):
    assert options(f"M required k={written};") == {"k": value}
    assert options(f"M required\n  k = {written}\n  j=x ;") == {"k": value, "j": "x"}


def test_blanks_and_comments_separate_tokens():
    text = 'M // module\n required /* flag\n */ a="1" // one\n / a lone slash starts a comment, too\n b="2"; // end'
    assert options(text) == {"a": "1", "b": "2"}
    assert options('M required a="1"b="2";') == {"a": "1", "b": "2"}


def test_lone_slash_hides_the_next_character_even_a_line_end():
    assert options('M required a="1" /\nb="2" c="3"\n;') == {"a": "1"}


def test_last_duplicate_wins():
    assert options('M required k="1" k="2";') == {"k": "2"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  // only a comment",
        "swordfish",
        "swordfish=x required;",
        "M",
        "M swordfish;",
        "'' required;",
        "5 required;",
        "M required",
        'M required k="swordfish"',
        'M required k="swordfish;',
        "M required k='swordfish\";",
        "M required k;",
        "M required k=;",
        "M required k swordfish;",
        "M required k=12345swordfish;",
        "M required k=12345;",
        "M required k=-swordfish;",
        "M required k=sword@fish;",
        "M required k=/etc/swordfish;",
        'M required k="a", j="swordfish";',
        'M required k="sword"fish";',
        'M required k="sword\nfish";',
        'M required k="1"; swordfish',
        'M required k="1"; M required k="swordfish";',
        'M required k="1"; /* no end */ swordfish',
        "M required @swordfish=1;",
        'M required k="swordfish\\',
    ],
)
def test_error_names_the_property_and_no_part_of_the_text(text: str):
    with pytest.raises(ConfigError) as refused:
        parse_jaas(text)
    assert str(refused.value).startswith("sasl.jaas.config: ")
    assert "\n" not in str(refused.value)
    for part in ("sword", "fish", "12345", "@", "/etc"):
        assert part not in str(refused.value)


def test_error_of_a_missing_option_names_it():
    with pytest.raises(ConfigError, match=r"^sasl\.jaas\.config: the option password is missing; add password="):
        parse_jaas('M required username="swordfish";').required("password")


def test_repr_hides_the_options():
    assert "swordfish" not in repr(parse_jaas('M required k="swordfish";'))


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb\rc", "pä$ ;'", "", "\\101"])
def test_formatted_text_parses_to_the_same_values(value: str):
    assert options(format_jaas(PLAIN, {"username": "u", "password": value}).reveal()) == {
        "username": "u",
        "password": value,
    }


def test_a_section_of_a_login_file_is_found_by_its_name() -> None:
    text = """
    // KafkaClient { a.Commented required; };
    KafkaServer { a.B required password="} KafkaClient {"; };
    KafkaClient {
      a.Plain required  /* } */
      username="alice" password="a}b";
    };
    Client { a.C required; };
    """
    section = login_section(text, "KafkaClient")
    assert section is not None
    assert parse_jaas(section) == JaasEntry(
        "a.Plain", "required", {"username": Secret("alice"), "password": Secret("a}b")}
    )
    assert login_section(text, "Other") is None
    assert login_section("KafkaClient { a.Plain required;", "KafkaClient") is None
