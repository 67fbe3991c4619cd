"""What the threads of a warp or of a block do together."""

from __future__ import annotations

from .kernel import Kernel
from .syntax import Instruction
from .translation import translates
from .types import Unsupported


@translates("shfl")
def shuffle(k: Kernel, i: Instruction) -> str:
    k.synchronizes = True
    modes = {"up": "kUp", "down": "kDown", "idx": "kIndex"}
    mode = modes[i.one_of(*modes) or ""]
    value, holds = i.operands[0].partition("|")[::2]
    arguments = ",".join(k.source(operand, 32) for operand in i.operands[1:5])
    lines = [f"{{ bool p_; const uint32_t x_ = Shuffled(c,{arguments},{mode},&p_);"]
    lines.append(k.assign(value, "x_", 32))
    lines.append(k.assign(holds, "p_", 1) if holds else "(void)p_;")
    return " ".join(lines) + " }"


@translates("vote")
def vote(k: Kernel, i: Instruction) -> str:
    k.synchronizes = True
    mask = k.source(i.operands[2], 32)
    ballot = f"Ballot(c,{k.source(i.operands[1], 1)},{mask})"
    if i.one_of("ballot"):
        return k.assign(i.operands[0], ballot, 32)
    if i.one_of("any"):
        return k.assign(i.operands[0], f"({ballot} != 0)", 1)
    if i.one_of("all"):
        return k.assign(i.operands[0], f"({ballot} == {mask})", 1)
    raise Unsupported("kind of vote")


@translates("bar", "barrier")
def barrier(k: Kernel, i: Instruction) -> str:
    k.synchronizes = True
    if i.one_of("warp"):
        return f"(void)Ballot(c,true,{k.source(i.operands[0], 32)});"
    if i.one_of("red") and i.one_of("or") and len(i.operands) == 3:
        number, holds = k.source(i.operands[1], 32), k.source(i.operands[2], 1)
        return k.assign(i.operands[0], f"(CountedAtBarrier(c,{number},{holds}) != 0)", 1)
    if i.one_of("sync"):
        count = k.source(i.operands[1], 32) if len(i.operands) > 1 else "0u"
        return f"Barrier(c,{k.source(i.operands[0], 32)},{count});"
    raise Unsupported("kind of barrier")
