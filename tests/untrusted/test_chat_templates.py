"""A chat template is a program that comes with a checkpoint: it ends, and writes no text of any length."""

from __future__ import annotations

import sys

import pytest

from stepscore._untrusted.chat_templates import MAX_LENGTH, render_chat
from stepscore.errors import ModelError
from tests.models import tiny
from tests.models.hostile_checkpoints import BOMBS

MESSAGES = [{"role": "user", "content": "open the drawer "}]
LONG = "{% set t = 'a' * 9999999 %}"
MORE_BOMBS = {
    "doubles a text by ~": "{% set n = namespace(t='aaaaaaaa') %}{% for i in range(60) %}"
    "{% set n.t = n.t ~ n.t %}{% endfor %}",
    "writes without end": LONG + "{% for i in range(99999) %}{{ t }}{% endfor %}",
    "writes into a variable": LONG + "{% set x %}{% for i in range(999) %}{{ t }}{% endfor %}{% endset %}",
    "writes in a macro": "{% macro m(n) %}{{ 'a' * 1000000 }}{{ m(n-1) if n }}{{ m(n-1) if n }}{% endmacro %}"
    "{{ m(30) }}",
    "centres a text": "{{ 'a'|center(10000000000) }}",
    "indents JSON": "{{ messages|tojson(indent=1000000000) }}",
    "indents lines": "{{ ('a\n' * 1000000)|indent(100000) }}",
    "pads by a method": "{{ 'a'.ljust(10000000000) }}",
    "pads by a filter": "{{ '%099999999d'|format(3) }}",
    "pads by an argument": "{{ '%*d'|format(9999999, 3) }}",
    "replaces every letter": LONG + "{{ t|replace('a', t) }}",
    "replaces by a method": LONG + "{{ t.replace('a', t) }}",
    "joins": LONG + "{{ ([t] * 9999999)|join }}",
    "joins by a method": LONG + "{{ t.join([t] * 1000) }}",
    "writes paragraphs": "{{ lipsum(1000000) }}",
}


class Templated:
    """What has a chat template, of a processor or tokenizer."""

    def __init__(self, template: str) -> None:
        from transformers import PreTrainedTokenizerFast

        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=tiny.tokenizer())
        self.tokenizer.chat_template = template

    def render(self) -> str:
        return render_chat(self.tokenizer, MESSAGES)


@pytest.mark.parametrize("template", [*BOMBS.values(), *MORE_BOMBS.values()], ids=[*BOMBS, *MORE_BOMBS])
def test_a_template_without_bounds_is_refused(template: str) -> None:
    with pytest.raises(ModelError, match="The checkpoint's chat template") as refused:
        Templated(template).render()
    assert len(str(refused.value)) < 500
    assert "\n" not in str(refused.value)


def test_an_ordinary_template_writes_what_jinja_writes() -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content|trim ~ '!' ~ 3 }}{{ m|tojson(indent=2) }}"
        "{{ ['a', 1]|join(', ') }}{{ 'abc'.replace('b', 'c')|replace('c', 'dd') }}{{ '%s-%s'|format(1, 2) }}"
        "{{ 'x'|center(9) }}{{ range(3)|list }}{{ 2 ** 3 }}{% endfor %}"
    )
    made = Templated(template)
    assert made.render() == made.tokenizer.apply_chat_template(MESSAGES, tokenize=False)
    # transformers keeps what it compiled, so the plain sandbox is asked as well.
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = template.replace("{{ m|tojson(indent=2) }}", "")
    assert Templated(template).render() == plain.from_string(template).render(messages=MESSAGES)


def test_a_text_of_the_longest_length_is_written() -> None:
    assert len(Templated(f"{{{{ 'a' * {MAX_LENGTH} }}}}").render()) == MAX_LENGTH


def test_a_debugger_stays_attached() -> None:
    def trace(*_: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        Templated("{{ messages|length }}").render()
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
