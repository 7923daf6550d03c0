"""Reports in a notebook: each plan's memory at the peak as a bar of its parts, against what is available, and its figures.

Bars are SVG. Colours after Okabe and Ito (2008), told apart with any colour vision; neighbouring parts differ in lightness, too.
Text takes the notebook's colour, so that a dark one is read as well.
"""
from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple

from ._words import shortened

if TYPE_CHECKING:
    from .results import Plan, Report

_PARTS = (
    ("parameters", "#0072b2"), ("gradients", "#e69f00"), ("optimizer_states", "#009e73"), ("activations", "#56b4e9"),
    ("loss", "#cc79a7"), ("communication_buffers", "#f0e442"), ("temporaries", "#d55e00"), ("framework_overhead", "#999999"),
)
_GAPS = "#c9c9c9"  # what the allocator cannot use
_WIDTH, _BAR = 420, 16  # of the bars, in pixels
_MOST_PLANS = 12


def _gib(value: float) -> str:
    return f"{value / 2**30:.1f}" if value < 100 * 2**30 else f"{value / 2**30:,.0f}"


def _parts(plan: Plan) -> List[Tuple[str, str, int]]:
    """Name, colour and bytes of each part; the last is what `required` is beyond the peak."""
    memory = plan.memory
    parts = [(name, color, int(getattr(memory, name))) for name, color in _PARTS]
    return [*parts, ("allocator slack", _GAPS, max(0, memory.required - memory.peak))]


def _bar(plan: Plan, scale: float, available: Optional[int]) -> str:
    """`scale`: pixels per byte."""
    shapes, x = [], 0.0
    for name, color, held in _parts(plan):
        width = held * scale
        if width < 0.05:
            continue
        title = f"{name.replace('_', ' ')}: {_gib(held)} GiB"
        shapes.append(f'<rect x="{x:.1f}" y="2" width="{width:.1f}" height="{_BAR}" fill="{color}"><title>{title}</title></rect>')
        x += width
    if x > _WIDTH:
        shapes.append(f'<text x="{_WIDTH - 2}" y="{_BAR - 1}" text-anchor="end" fill="#fff" font-weight="bold">›</text>')
    if available is not None:
        at = available * scale
        shapes.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{_BAR + 4}" stroke="currentColor" stroke-width="1.5"'
                      f' stroke-dasharray="3 2"><title>available: {_gib(available)} GiB</title></line>')
    label = f"{plan.id}: {_gib(plan.memory.required)} GiB needed"
    return (f'<svg role="img" aria-label="{escape(label)}" width="{_WIDTH}" height="{_BAR + 4}" viewBox="0 0 {_WIDTH} {_BAR + 4}">'
            f'{"".join(shapes)}</svg>')


def _row(plan: Plan, bar: str, recommended: bool) -> str:
    name = f"<b>{escape(plan.id)}</b>" if recommended else escape(plan.id)
    verdict = "fits" if plan.fits else "short" if not plan.fits_device else "short of host memory"
    cells = [f"{plan.strategy.micro_batch_size}", _gib(plan.memory.required), f"{plan.time.step:.3g}", f"{plan.time.tokens_per_second:,.0f}"]
    numbers = "".join(f'<td style="text-align:right">{cell}</td>' for cell in cells)
    return f'<tr><td style="text-align:left">{name}</td><td>{bar}</td>{numbers}<td style="text-align:left">{verdict}</td></tr>'


def _legend(plans: Sequence[Plan]) -> str:
    shown = []
    for name, color, _ in _parts(plans[0]):
        if any(held for plan in plans for each, _, held in _parts(plan) if each == name):
            shown.append(f'<span style="white-space:nowrap"><svg width="10" height="10"><rect width="10" height="10" fill="{color}"/>'
                         f"</svg> {name.replace('_', ' ')}</span>")
    return " &ensp; ".join(shown)


def plans_html(plans: Sequence[Plan], available: Optional[int], recommended: Optional[str] = None) -> str:
    """A table with a bar per plan; the dashed line is what is available."""
    widest = max(*(plan.memory.required for plan in plans), available or 1)
    # A plan that needs far more would leave nothing to be seen of those that fit.
    if available is not None:
        widest = min(widest, 3 * available)
    scale = _WIDTH / widest
    heads = ("strategy", "memory per GPU", "batch", "GiB", "s/step", "tokens/s", "")
    head = "".join(f'<th style="text-align:{"left" if i < 2 else "right"}">{each}</th>' for i, each in enumerate(heads))
    rows = "".join(_row(plan, _bar(plan, scale, available), plan.id == recommended) for plan in plans[:_MOST_PLANS])
    more = f"<div>and {len(plans) - _MOST_PLANS} more: to_frame() has all</div>" if len(plans) > _MOST_PLANS else ""
    return f'<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}<div style="margin:.3em 0">{_legend(plans)}</div>'


def _summary(report: Report) -> str:
    cluster = report.cluster
    question = (f"<b>{escape(shortened(report.model.name))}</b> on {cluster.gpus} × {escape(cluster.gpu)}"
                f" ({_gib(cluster.available_memory_bytes)} GiB available per GPU), {report.training.sequence_length} tokens per sample")
    if report.recommended is not None:
        return f"{question}: <b>{escape(report.recommended)}</b> is recommended."
    instead = f" It would with <code>{escape(report.alternative.change)}</code>." if report.alternative is not None else ""
    return f"{question}: <b>nothing fits.</b>{instead}"


def report_html(report: Report) -> str:
    warnings = "".join(f"<li>{escape(each)}</li>" for each in report.warnings)
    return (f'<div class="zplan"><p>{_summary(report)}</p>'
            f"{plans_html(report.plans, report.cluster.available_memory_bytes, report.recommended)}"
            f"{f'<ul>{warnings}</ul>' if warnings else ''}</div>")
