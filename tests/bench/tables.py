"""What benches measured, as Markdown: made from their JSON objects alone, so that no figure is written by hand. Pure."""

from __future__ import annotations

from typing import Any, Callable, Iterable

from kills import KINDS
from calm import is_calm
from like_moves import differences
from regressions import FITTED, PAPER, formula

Json = Any
BEGIN, END = "<!-- measured: written by tests/bench/table -->", "<!-- end of measured -->"
ORDER = ("soak", "forecast", "move", "migtest", "grow", "spread", "checkpoint", "recovery", "restart", "detection", "planner")
NOTHING = "-"
#: Of a value of the set-up that a line of text takes; the rest is in the JSON.
LONGEST = 40


def number(value: float | None, form: str = "") -> str:
    if value is None:
        return NOTHING
    return format(value, form or (".0f" if abs(value) >= 1e4 else ".4g"))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def spread(one: Json, factor: float = 1, form: str = ".2f") -> str:
    """Median, and the edges of the repeats."""
    if not one:
        return NOTHING
    low, middle, high = (one[name] * factor for name in ("min", "median", "max"))
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def where(report: Json) -> str:
    machine = report["machine"]
    words = [f"commit `{report['commit'][:12]}`" if report["commit"] else "no commit", f"{machine['cores']} cores",
             machine.get("accelerator"), *machine.get("hypervisor", []), f"kernel {machine['kernel']}",
             f"load {machine['load_before']} before, {machine['load_after']} after"]
    return ", ".join(word for word in words if word) + "."


def setup(report: Json) -> str:
    """Its single values, and the cap of guests."""
    known = {key: value for key, value in report["setup"].items() if isinstance(value, (int, float, str)) and len(str(value)) <= LONGEST}
    caps = report["setup"].get("caps") or {}
    for part, one in ([("", caps)] if "vcpu_share_of_a_core" in caps else caps.items()):
        known[f"vCPU share of a core {part}".rstrip()] = one["vcpu_share_of_a_core"] or f"not capped ({one['why_not']})"
    return "Set-up: " + ", ".join(f"{key.replace('_', ' ')} {number(value) if isinstance(value, float) else value}"
                                  for key, value in known.items()) + "."


def bars(report: Json) -> str:
    if not report["bars"]:
        return ""
    return table(("bar", "measured", "wanted", "unit", "holds"), (
        (f"`{name}`", number(one["value"]), number(one["bar"]), one["unit"], "yes" if one["holds"] else "**no**")
        for name, one in report["bars"].items()))


def soak(report: Json) -> list[str]:
    results = report["results"]
    names = [("downtime, by the hypervisor, ms", results["downtime_ms"]["hypervisor"]),
             ("lost by the guest's clock, ms", results["downtime_ms"]["guest"]),
             ("without an answer to its peers, ms", results["downtime_ms"]["peers"]),
             ("total time, ms", results["total_time_ms"]), ("sent, MiB", results["transferred_mib"]),
             ("the first ARP after the VM ran, ms", results["announce_delay_ms"]), ("an iteration of the job, ms", results["iteration_ms"])]
    wire = report["limits"]["total_time_ms"]
    return [table(("", "count", "median", "p95", "max"), (
        (name, number(one.get("count")), *(number(one.get(key)) for key in ("median", "p95", "max"))) for name, one in names)),
        f"The wire alone: {number(wire['value'])} ms ({wire['arithmetic']})."]


def forecast(report: Json) -> list[str]:
    results, baselines = report["results"], report["baselines"]

    def line(name: str, one: Json, percent: bool) -> tuple[str, ...]:
        words = [number(one.get(key) * (100 if percent else 1) if one.get(key) is not None else None) for key in ("median", "p95", "max")]
        return (name, number(one.get("count")), *words, "%" if percent else "s")

    errors = [line("total time", results["errors"]["time"], True), line("bytes", results["errors"]["bytes"], True),
              line("downtime", results["errors"]["downtime_s"], False),
              line("added job time", results["errors"]["added_job_time_s"], False)]
    like = results["like_moves_apart"]
    alike = [line("total time", like["time"], True), line("bytes", like["bytes"], True), line("downtime", like["downtime"], False),
             line("added job time", like["added"], False)]
    others = [line("Liu's form", baselines["liu_time_error"], True),
              line("Neves' form, fitted to half of them", baselines["neves_refitted_time_error"], True),
              line("ours", baselines["ours_on_the_same"], True)]
    # Not in the results of before it was asked.
    asked = [line(name, baselines[key], False) for name, key in (
        ("what QEMU expects, told last before the switch", "qemu_downtime_error_s"), ("ours, told before the first page", "ours_downtime_error_s"))
        if key in baselines]
    cost = results.get("probe_cost")
    head = ("median", "p95", "max", "unit")
    return [f"{results['moves']} moves, {results['dropped_for_load']} of them dropped for load, {results['ended']} judged; "
            f"{number(100 * results['coverage'], '.1f')}% of the outcomes were inside of their intervals.",
            table(("error of the forecast", "count", *head), errors),
            table(("one of two like moves off what both have in common", "pairs", *head), alike),
            table(("total time of plain pre-copy, by", "count", *head), others),
            *([table(("downtime of plain pre-copy, by", "count", *head), asked)] if asked else []),
            *([f"The dirty-page log took {number(100 * cost['median'])}% of the guest's time in the median, {number(100 * cost['max'])}% at most."]
              if cost else [])]


def like_moves(reports: list[Json]) -> str:
    """Of all runs of `forecast` together: one alone has few pairs."""
    runs = [[row for row in one["results"]["rows"] if "measured" in row and is_calm(row, one["setup"]["load_limit"])]
            for one in reports if one["bench"] == "forecast"]
    if len(runs) < 2:
        return ""
    together: dict[str, list[float]] = {}
    for rows in runs:
        for name, values in differences(rows).items():
            together[name] = together.get(name, []) + [abs(value) for value in values]
    lines = []
    for name, title, factor, unit in (("time", "total time", 100, "%"), ("bytes", "bytes", 100, "%"), ("downtime", "downtime", 1000, "ms"),
                                      ("downtime_beyond", "downtime, 0 within 15% of it", 1000, "ms"), ("added", "added job time", 1, "s")):
        values = sorted(together[name])
        at = [values[min(len(values) - 1, int(share * len(values)))] * factor for share in (0.5, 0.9, 0.95)] if values else [None] * 3
        lines.append((title, number(len(values)), *(number(value) for value in at), unit))
    return f"### forecast: like moves of all {len(runs)} runs\n\n" + \
        table(("one of two like moves off what both have in common", "pairs", "median", "p90", "p95", "unit"), lines)


def history(reports: list[Json]) -> list[str]:
    """What the bars of a bench came to in each of its runs, for benches of which there are several. Bold holds."""
    parts = []
    for bench in ORDER:
        runs = sorted((one for one in reports if one["bench"] == bench), key=lambda one: one["setup"].get("seed", 0))
        if len(runs) < 2:
            continue
        names = list(runs[-1]["bars"])
        wanted = [number(runs[-1]["bars"][name]["bar"]) for name in names]

        def value(run: Json, name: str) -> str:
            one = run["bars"].get(name)
            return NOTHING if one is None else f"**{number(one['value'], '.3g')}**" if one["holds"] else number(one["value"], ".3g")

        def apart(run: Json) -> list[str]:
            """What can't be known before a move, in that run."""
            like = run["results"].get("like_moves_apart")
            if not like or "p95" not in like["time"]:
                return [NOTHING] * (bench == "forecast")
            return [f"{number(like['time']['p95'], '.3g')}, {number(1000 * like['downtime']['p95'], '.3g')}"]

        head = ("run", *(f"`{name}`" for name in names), *(["like moves apart: time, downtime in ms, p95"] if apart(runs[-1]) else []))
        lines = [(f"`{(run['commit'] or NOTHING)[:7]}`, seed {run['setup'].get('seed', NOTHING)}", *(value(run, name) for name in names),
                  *apart(run)) for run in runs]
        parts.append(f"### {bench}: all {len(runs)} runs\n\n" + table(head, [("wanted", *wanted, *[""] * (len(head) - 1 - len(wanted))), *lines]))
    return parts


def move(report: Json) -> list[str]:
    columns = {"ours_s": "Maré, s", "best_s": "best by hand, s", "median_s": "median by hand, s", "checkpoint_restart_s": "save, copy, restore, s",
               "nothing_s": "nothing moved, s", "noise_s": "at most, s", "over_best": "over best", "over_median": "over median",
               "ours_vs_wire": "time over wire", "best_vs_wire": "best time over wire by hand", "halted_beside_s": "beside its halt, s",
               "ours_beside_downtime_s": "beside downtime, s", "best_beside_downtime_s": "the least of it by hand, s"}
    # An older result has not all of them.
    columns = {key: title for key, title in columns.items() if any(key in one for one in report["results"]["compared"])}
    return [table(("link", "program", *columns.values()), (
        (one["rate"], one["case"], *(number(one.get(key), ".2f") for key in columns)) for one in report["results"]["compared"]))]


def migtest(report: Json) -> list[str]:
    results = report["results"]
    fits = []
    for method, quantities in results["fits"].items():
        names = FITTED[method][0]
        for quantity, known in quantities.items():
            what = f"{method}: {quantity.removesuffix('_s').replace('_', ' ')}"
            fits.append((what, formula(names, known["coefficients"]), number(known["r2"], ".4f"), number(known["residual_sd"], ".2f"),
                         number(known["samples"])) if known else (what, "too few rows", NOTHING, NOTHING, NOTHING))
            if paper := PAPER.get(method, {}).get(quantity):
                fits.append((f"- the paper, Eq. {paper['equation']}", formula(names, paper["coefficients"]), number(paper["r2"], ".4f"),
                             NOTHING, NOTHING))
    cells = ((one["cell"], one["method"], ", ".join(one["strategies"]), number(one["count"]), spread(one["added_job_time_s"]),
              spread(one["total_time_s"]), spread(one["downtime_s"]), spread(one["sent_bytes"], 1e-6, ".0f"))
             for one in results["cells"])
    return [f"{results['moves']} moves, {results['dropped_for_load']} of them dropped for load, {results['not_done']} not done.",
            table(("s, from bytes", "fit", "R2", "residual sd, s", "moves"), fits),
            table(("cell", "method", "strategy", "moves", "added job time, s", "total time, s", "downtime, s", "sent, MB"), cells)]


def quantiles(one: Json, form: str = "", factor: float = 1) -> str:
    """Median and 95th percentile."""
    if not one.get("count"):
        return NOTHING
    return " / ".join(number(one[key] * factor, form) for key in ("median", "p95"))


def checkpoint(report: Json) -> list[str]:
    results = report["results"]
    cells = ((one["program"], number(one["every_s"]), one["mode"], f"{one['counted']} of {one['pairs']}", number(one["without_s"].get("median"), ".1f"),
              number(one["added_s"].get("median"), ".2f"), number(one["overhead_percent"], ".2f"), number(one["checkpoints"]),
              number(one["added_per_checkpoint_s"], ".2f"), number(one["lost_percent"], ".2f"), quantiles(one["pause_ms"], ".1f"),
              quantiles(one["skew_ms"], ".1f"),
              *(number(one[name]["median"] / 1e6 if one[name]["count"] else None, ".0f") for name in ("size_bytes", "written_bytes")),
              number(one["took_s"].get("median"), ".1f"))
             for one in results["cells"])
    together = ((mode, every_s, number(value, ".2f"), number(results["lost_percent"][mode][every_s], ".2f"))
                for mode, known in results["overhead_percent"].items() for every_s, value in known.items())
    absent = next((f"Checkpoints of kind {mode}: {text}." for mode, text in report["setup"]["modes"].items() if str(text).startswith("absent")), "")
    return [part for part in (
        f"{results['runs']} runs, {results['dropped_for_load']} of them dropped for load, {results['pairs_counted']} pairs counted.", absent,
        table(("all programs: kind", "every, s", "longer by, %", "lost at them, %"), together),
        table(("program", "every, s", "kind", "pairs", "without, s", "added, s", "longer by, %", "checkpoints", "added for each, s", "lost at them, %",
               "pause, ms (median / p95)", "skew, ms (median / p95)", "state, MB", "written, MB", "in, s"), cells)) if part]


def recovery(report: Json) -> list[str]:
    results = report["results"]

    def rows(group: str, names: dict[str, str]) -> list[tuple[str, ...]]:
        return [(names.get(one[group], one[group]), number(one["kills"]), number(one["survived"]),
                 *(quantiles(one[key], ".2f") for key in ("detection_s", "recovery_s", "redone_s"))) for one in results[f"by_{group}"]]

    head = ("kills", "survived", "noticed after, s (median / p95)", "useful work after, s", "done twice, s")
    curve = [(number(one["percent"]), "yes" if one["survived"] else "**no**", number(one["total_s"], ".1f"), number(one["rerun_s"], ".1f"),
              number(one["saved_percent"], ".1f"), number(one["possible_percent"], ".1f")) for one in results["curve"]]
    found = []
    if results["kills"]:
        found += [f"{results['kills']} kills, {results['dropped_for_load']} of them not timed for load; VMs' processes were counted {results['looks']} times.",
                  table(("what is killed", *head), rows("kind", KINDS)), table(("when", *head), rows("moment", {}))]
    if curve:
        found += [f"A run without checkpoints and without a failure: {number(report['baselines']['run_s'], '.1f')} s.",
                  table(("host fails at, %", "survived", "with checkpoints, s", "run again from the start, s", "saved, %", "possible, %"), curve)]
    return found


def detection(report: Json) -> list[str]:
    watched, fast = report["results"]["watched"], report["results"]["fast"]
    silences = watched["silences"]
    return [f"{len(watched['alarms'])} false alarms in {number(watched['seconds'], '.0f')} s at load {quantiles(watched['load'], '.1f')} (median / p95), "
            f"{watched['checkpoints']} checkpoints meanwhile. The longest silence of {silences['answers']} was {number(silences['longest_s'], '.2f')} s.",
            table(("silent for longer than, s", "times"), ((bound, number(count)) for bound, count in silences["longer_than_s"].items())),
            table((f"with `{report['setup'].get('fast_with', '')}`", "times", "noticed after, s (median)", "at most, s"), (
                (KINDS[kind], number(one["count"]), number(one.get("median"), ".2f"), number(one.get("max"), ".2f"))
                for kind, one in fast["by_kind"].items()))]


def restart(report: Json) -> list[str]:
    return [table(("VM, MiB", "of it held, MiB", "the checkpoint's files, MB", "restart", "count", "loading, s", "guests answer, s", "at work again, s"), (
        (number(one["memory_mib"]), number(one["held_mib"]), number(one["written_bytes"] / 1e6, ".0f"), one["kind"], number(one["counted"]),
         spread(one["loading_s"]), spread(one["answers_s"]), spread(one["at_work_s"])) for one in report["results"]["cells"]))]


def grow(report: Json) -> list[str]:
    names = (("grow_s", "last rank at work, s"), ("first_rank_s", "first rank at work, s"), ("shrink_s", "VMs gone, s"),
             ("jobs_end_s", "- jobs seen to have ended"), ("vms_end_s", "- figure to VMs gone"))
    by_rule = (("clone", report["results"]["by_rule"]["clones"]), ("boot", report["baselines"]["by_rule"]["boots"]))
    return [f"One boot, without a rule: {number(report['baselines']['boot_s_median'])} s.",
            table(("by a rule, medians", "VMs", *(head for _, head in names)), (
                (kind, count, *(number(one[name], ".2f") for name, _ in names))
                for kind, known in by_rule for count, one in known.items()))]


def visits(report: Json) -> list[str]:
    results = report["results"]
    return [table(("visiting, s", "staying, s", "added, s", "added", "lost at the changes, s", "lost", "forecast, s", "machine, slower by", "counts"), (
        (number(one["visiting_s"], ".1f"), number(one["staying_s"], ".1f"), number(one["added_s"], ".2f"),
         f"{100 * one['added_fraction']:.2f}%", number(one["lost_s"], ".2f"),
         NOTHING if one["lost_fraction"] is None else f"{100 * one['lost_fraction']:.2f}%", number(one["forecast_added_s"], ".2f"),
         NOTHING if one["machine_ratio"] is None else f"{100 * one['machine_ratio'] - 100:.0f}%",
         "yes" if one["counts"] else "no") for one in results["pairs"])),
        table(("trial: stays on hosts", "ms a step"), (
            (number(one["from_hosts"]), number(1000 * one["job_s"] / one["counted_steps"])) for one in report["baselines"]["trials"]))]


def planner(report: Json) -> list[str]:
    names = {"mare_n_plus_one": "Maré, N+1 kept", "mare": "Maré", "hbal": "hbal", "hbal_to_the_end": "hbal to the end"}
    balanced, placed_one = [], []
    for row in report["results"]:
        size = f"{row['hosts']} x {row['vms']}"
        for key, name in names.items():
            one = row[key]
            score = one["ganeti_score"] if key.startswith("mare") else one["score"]
            balanced.append((size, name, number(row["before"]["ganeti_score"]), number(score), number(one.get("mare_with_as_many_moves")),
                             number(one["moves"]) + ("" if one.get("finished", True) else ", unfinished"), number(one["cpu_s"]),
                             number(one["exposed"])))
        for rule, both in row.get("one_placement", {}).items():
            for tool, name in (("mare", "Maré"), ("hail", "hail")):
                one = both[tool]
                placed_one.append((size, "kept" if rule == "n_plus_one" else "not asked for", name, one["host"] or NOTHING,
                                   number(one["ganeti_score"]), number(one["cpu_s"])))
    return ["Scores are by Ganeti's own scorer, lower is better; each of its programs got "
            f"{report['setup']['limit_cpu_s']} s of CPU time. What is compared, and why so: [placement.md](placement.md#beside-ganeti).",
            table(("hosts x VMs", "by", "score before", "score after", "Maré's with as many moves", "moves", "CPU s",
                   "hosts that could not fail"), balanced),
            table(("hosts x VMs, one VM more", "N+1", "by", "host", "score after", "CPU s"), placed_one)]


BODIES: dict[str, Callable[[Json], list[str]]] = {"soak": soak, "forecast": forecast, "move": move, "migtest": migtest,
                                                  "grow": grow, "spread": visits, "checkpoint": checkpoint, "recovery": recovery, "restart": restart,
                                                  "detection": detection,
                                                  "planner": planner}


def section(report: Json, plots: Iterable[str] = ()) -> str:
    """`plots` are addresses of its drawings."""
    body = BODIES.get(report["bench"])
    parts = [f"### {report['bench']}", where(report), setup(report), bars(report), *(body(report) if body else []),
             *(f"![{report['bench']}: {address.rsplit('/', 1)[-1].removesuffix('.svg')}]({address})" for address in plots)]
    return "\n\n".join(part for part in parts if part)


def in_order(reports: Iterable[Json]) -> list[Json]:
    return sorted(reports, key=lambda one: (ORDER.index(one["bench"]) if one["bench"] in ORDER else len(ORDER), one["bench"]))


def placed(text: str, measured: str) -> str | None:
    """`text` with what is between its two marks replaced; None: it lacks them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{measured}\n\n{END}{after}" if begin and end else None
