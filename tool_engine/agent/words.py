"""Which sentences does the loop itself say to a model, in its language?"""

from __future__ import annotations

from typing import Final

_WORDS: Final = {
    "en": {
        "cut": "Your last reply was cut off by the limit on its length, so it was not used. Write "
        "a complete reply, and a shorter one.",
        "unreadable": "Your last reply could not be read: {detail}. Write it again.",
        "repeating_hint": "You made the same calls before, with the same results. Do something "
        "else, or answer with what you know.",
        "repeating": "You made the same calls with the same results {count} times. Answer now "
        "with what you know; no further call is run.",
        "bound": "This turn has come to its bound ({reason}). Answer now with what you know; no "
        "further call is run.",
        "refused": "the reply was refused, so nothing in it was run",
        "cut_again": "the reply was cut off again, so nothing in it was run",
        "over": "the turn is over",
        "cancelled": "the turn was cancelled before this call had ended",
        "late": "the time of the turn was up (max_seconds_reached) before this call had ended",
        "left_out": "[What the user said here, and all that came of it, was refused by the "
        "provider, so it is left out. Calls that ran in it: {ran}. Ended calls that were told in "
        "it: {news}. Their results are left out, too.]",
        "interrupted": "[The turn was interrupted here, before an answer.]",
    },
    "zh": {
        "cut": "上一条回复因长度限制被截断，未被采用。请重新写一条完整且更短的回复。",
        "unreadable": "无法读取上一条回复：{detail}。请重新写一遍。",
        "repeating_hint": "你之前已经做过同样的调用，并得到同样的结果。"
        "请换一种做法，或根据已知信息回答。",
        "repeating": "同样的调用得到同样的结果已达 {count} 次。"
        "请立即根据已知信息回答；不再执行任何调用。",
        "bound": "本轮已达到上限（{reason}）。请立即根据已知信息回答；不再执行任何调用。",
        "refused": "该回复被拒绝，其中的调用均未执行",
        "cut_again": "回复再次被截断，其中的调用均未执行",
        "over": "本轮已结束",
        "cancelled": "本轮在该调用结束前被取消",
        "late": "本轮时间已到（max_seconds_reached），该调用尚未结束",
        "left_out": "[用户在此处所说的内容及其后续被服务方拒绝，已从对话中移除。"
        "其间执行过的调用：{ran}。其间告知的已结束调用数：{news}。其结果也一并移除。]",
        "interrupted": "[本轮在此处中断，尚无回答。]",
    },
}


def write_sentence(language: str, key: str, **values: object) -> str:
    """Return one sentence, in `en` or `zh`."""
    return _WORDS[language][key].format(**values)
