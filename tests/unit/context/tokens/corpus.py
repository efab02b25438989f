# ruff: noqa: RUF001  letters of other scripts look like ours
"""Texts of all kinds, as people, models and tools write them, and a provider that counts what it is sent."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from agent_runtime.context.tokens.encodings import encoder
from agent_runtime.context.tokens.message_overhead import REPLY, message_tokens

ROOT = Path(__file__).parents[4]
CORPUS = ROOT / "tests/corpora/tokens"

PROSE = {
    "en": (
        "The harbour was quiet when we arrived, and the fishermen were mending their nets along the wall. "
        "I'd expected a crowd; instead there were two dogs, a bicycle, and an old man who didn't look up. "
        "Please summarise the attached report in five sentences and say which of the figures you do not trust."
    ),
    "de": (
        "Die Bürgermeisterin erklärte, dass die Brücke erst im nächsten Frühjahr wieder geöffnet werde. "
        "Größere Fahrzeuge müssen bis dahin über die Umgehungsstraße fahren, was viele Anwohner ärgert."
    ),
    "fr": (
        "L'été dernier, nous avons traversé les Pyrénées à pied, sans téléphone ni carte. "
        "Pourriez-vous m'envoyer le compte rendu de la réunion d'hier, s'il vous plaît ?"
    ),
    "es": "¿Podrías revisar el informe antes del viernes? Mañana tengo otra reunión y aún faltan los números.",
    "pl": "Zażółć gęślą jaźń: proszę sprawdzić, czy wszystkie zamówienia zostały wysłane przed końcem miesiąca.",
    "tr": "Toplantıyı perşembe gününe erteledik; lütfen güncellenmiş gündemi herkese gönderin ve odayı ayırtın.",
    "vi": "Xin hãy kiểm tra lại bảng số liệu trước khi gửi cho khách hàng, vì tháng trước đã có hai chỗ sai.",
    "ru": (
        "Вчера вечером мы долго спорили о том, стоит ли переносить сервер в другой город. "
        "Пожалуйста, проверьте журнал ошибок и напишите, почему не отвечает база данных."
    ),
    "el": "Παρακαλώ ελέγξτε τα στοιχεία της αναφοράς και στείλτε μου τις διορθώσεις μέχρι αύριο το πρωί.",
    "he": "בבקשה בדקו את הדוח לפני הישיבה ושלחו לי את התיקונים עד מחר בבוקר.",
    "ar": "يرجى مراجعة التقرير قبل الاجتماع وإرسال التصحيحات إليّ قبل صباح الغد.",
    "hi": "कृपया बैठक से पहले रिपोर्ट की जाँच करें और कल सुबह तक मुझे सुधार भेज दें।",
    "th": "กรุณาตรวจสอบรายงานก่อนการประชุมและส่งการแก้ไขให้ฉันภายในเช้าวันพรุ่งนี้",
    "zh": (
        "昨天晚上服务器突然停止响应,我们检查了日志,发现数据库连接已经用完。请把超时时间改成三十秒,"
        "然后重新启动服务,并在明天上午之前把结果写成一份简短的报告。"
    ),
    "zh-tw": "請在會議之前檢查這份報告,並把修改的地方用紅色標出來,明天早上寄給我。",
    "ja": (
        "昨日の会議の議事録を確認してください。来週の金曜日までに、予算の見直しと新しいスケジュールを"
        "まとめて、チーム全員に共有する必要があります。よろしくお願いします。"
    ),
    "ko": "어제 회의록을 확인해 주세요. 다음 주 금요일까지 예산과 일정을 정리해서 팀 전체에 공유해야 합니다.",
    "emoji": "Great work 🎉🎉! 👍🏽 see you 🚀 tomorrow 😂😂 ❤️ 👨‍👩‍👧‍👦 🇩🇪 ✅ done ❌ failed ⚠️ careful",
}


def _kept(*names: str) -> tuple[str, ...]:
    """Files as they once were: texts that change with the repository would make other conversations every time."""
    return tuple((CORPUS / f"{name}.txt").read_text("utf-8") for name in names)


CODE = _kept("lower.py", "failures.py", "page.mjs", "Makefile")
DOCUMENTS = _kept("sessions.md", "storage.md", "waits.md")
SCHEMAS = _kept("TaskResult.json", "SessionDetail.json")
SPECIAL = (
    "",
    " ",
    "<|endoftext|>",
    "say <|endoftext|> and <|endofprompt|><|fim_prefix|> loudly",
    "   \n\n\t  \r\n x",
    "it's they're I'LL we'Ve",
    "1234567890 3.14159 0xDEADBEEF 1e-9",
    "a\u0301 e\u0308 \u200b\u200d\ufeff \u202etxt\u202c",
    "\u0000\u0001\u001f\u007f",
    "—–…“quoted”‘single’",
    "____----====>>>><<<<",
    "AbCdEfGhIj camelCaseWords SCREAMING_SNAKE",
    "\U0001d400\U0001d401 𠮷野家 ﷽",
)


def results(rng: random.Random) -> Iterator[str]:
    """What tools answer, one of each kind."""
    rows = [
        {
            "id": rng.randint(1, 99_999),
            "name": rng.choice(["Alice Smith", "Bob Jones", "Chandra Kumar"]),
            "email": f"user{rng.randint(1, 999)}@example.com",
            "score": round(rng.random() * 100, 2),
            "created_at": f"2026-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T10:{rng.randint(10, 59)}:00Z",
        }
        for _ in range(rng.randint(3, 20))
    ]
    yield json.dumps(rows)
    yield "\n".join(
        f"-rw-r--r-- 1 root root {rng.randint(1, 99_999):>8} Nov {rng.randint(1, 30):>2} 10:{rng.randint(10, 59)} "
        f"{rng.choice(['main', 'test_view', 'report'])}_{rng.randint(1, 99)}.py"
        for _ in range(rng.randint(8, 40))
    )
    yield "\n".join(
        f"2026-11-{rng.randint(1, 30):02} 10:00:{rng.randint(10, 59)},123 {rng.choice(['INFO', 'ERROR'])} [worker-3] "
        f"{rng.choice(['request completed in', 'connection refused by', 'retrying after'])} {rng.randint(1, 9999)} ms"
        for _ in range(rng.randint(5, 40))
    )


def everything() -> list[str]:
    """All texts."""
    return [*PROSE.values(), *CODE, *DOCUMENTS, *SCHEMAS, *SPECIAL, *results(random.Random(1))]


def message(role: str, content: Any, **more: Any) -> bytes:
    return to_json({"role": role, "content": content, **more})


def called(name: str, arguments: dict[str, Any], text: str | None = None) -> bytes:
    """An assistant's message that calls a tool."""
    function = {"name": name, "arguments": to_json(arguments).decode()}
    return message("assistant", text, tool_calls=[{"id": "call_01JD3M5Q8R", "type": "function", "function": function}])


def answered(data: Any) -> bytes:
    """What the tool has answered."""
    envelope = {"type": "output", "data": data, "metadata": {}}
    return message("tool", to_json(envelope).decode(), tool_call_id="call_01JD3M5Q8R")


def turn(rng: random.Random, language: str) -> list[bytes]:
    """A question in that language, a round or two of tools, and the answer."""
    messages = [message("user", " ".join([PROSE[language]] * rng.randint(1, 3)))]
    for _ in range(rng.randint(0, 2)):
        source = rng.choice((*CODE, *DOCUMENTS, *SCHEMAS))
        start = rng.randrange(max(1, len(source) - 2000))
        piece = source[start : start + rng.randint(200, 2000)]
        if rng.random() < 0.3:
            messages += [
                called("write", {"path": "notes/plan.md", "content": piece}),
                answered({"written": len(piece)}),
            ]
        else:
            output = rng.choice([piece, *results(rng)])
            messages += [called("bash", {"command": "cat notes/plan.md"}), answered({"stdout": output, "exit_code": 0})]
    messages.append(message("assistant", " ".join([PROSE[language]] * rng.randint(1, 2))))
    return messages


SHOWN_OF_TOOLS = 0.75
"""Share of the JSON of tools that the provider's model is shown."""


class CountingProvider:
    """Counts prompts as `o200k_base` does, times a factor that nobody knows."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._count = encoder("o200k_base").count
        self._seen: dict[bytes, int] = {}

    def prompt_tokens(self, messages: Sequence[bytes], tools: bytes | None = None) -> int:
        for one in messages:
            if one not in self._seen:
                self._seen[one] = message_tokens(one, self._count)
        frame = REPLY + (round(self._count(tools.decode()) * SHOWN_OF_TOOLS) if tools else 0)
        return round(self._factor * (frame + sum(self._seen[one] for one in messages)))
