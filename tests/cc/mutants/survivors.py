"""Mutants that change no behaviour, and why: by file, change and line."""

_INSTANT = (
    "Times differ by an instant: at the very time at which it is due, the timer is set again."
)

SURVIVORS: dict[tuple[str, str, str], str] = {
    (
        "sync/sync_gate_timing.cc",
        ">= becomes >",
        "if (num_expected_ > 0 && now >= expected_until_) {",
    ): _INSTANT,
    (
        "sync/sync_gate_chief.cc",
        "the condition is true",
        "if (!worker.empty()) ReleaseWaits();",
    ): "If nothing has happened, there is no wait to release.",
    (
        "accumulator/accumulator.cc",
        "the statement is left out",
        "round->place = Place::kGone;",
    ): "No thread asks what to do with a round that has ended: see the rows of NextAction that the"
    " explorer reaches.",
    (
        "sync/roster.h",
        "< becomes <=",
        "oldest == workers_.end() || each->second.last_seen < oldest->second.last_seen;",
    ): "No two workers were seen last at the same time.",
    (
        "sync/sync_gate_waits.cc",
        "the statement is left out",
        "examined_ = situation;",
    ): "All waits are then looked at after each event, as tests/cc/scale notices by the time.",
    (
        "sync/sync_gate_waits.cc",
        "the condition is true",
        "if (situation != examined_) {",
    ): "All waits are then looked at after each event, as tests/cc/scale notices by the time.",
    (
        "sync/sync_gate_waits.cc",
        "the condition is false",
        "if (MustRelease(*wait, &end)) return true;",
    ): "Only an invariant, which looks for mistakes, calls the function.",
    (
        "accumulator/accumulator.cc",
        "the condition is true",
        "if (is_due) report = DescribeStall(front, front.began);",
    ): "Nobody looks at a report that is not due.",
    (
        "accumulator/accumulator_state.cc",
        "> becomes >=",
        "const bool has_gradients = round->num_accumulated() > 0;",
    ): "A round without gradients has nothing to copy, whether its sum begins a save or not.",
    (
        "accumulator/host_workspace.cc",
        "the condition is true",
        "if (num_bytes > 0) std::memset(to, 0, num_bytes);",
    ): "No byte is written either way; a null pointer is not allowed, as UndefinedBehaviorSanitizer"
    " would say.",
    (
        "accumulator/accumulator.cc",
        "the condition is true",
        "if (status.ok()) round.sum->AbandonFinish();",
    ): "If the memory was refused, there is none to be freed.",
}
