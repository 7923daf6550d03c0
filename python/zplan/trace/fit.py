"""Sizes as polynomials in the batch and the sequence length, and stretches of events that every recorded size
shares.

A stretch lies between two marks. Where its events are the same at every recorded size it is kept event by
event. Where they are not (loops over chunks of the sequence, sorting that needs memory from some size on) it is
kept by what it leaves behind and by its highest moment: one block that stands for the temporaries, then blocks
for what outlives it, one for each stretch in which they are freed."""

from fractions import Fraction


class NotRecordable(Exception):
    """The model cannot be recorded; the message says why."""


class Fitter:
    """points: (b, s[, rank]); those of one batch size are fitted in s alone."""

    def __init__(self, points, checks):
        self.points, self.checks = points, checks
        self.one_batch = len({p[0] for p in points}) == 1
        self.with_rank = len({p[2] for p in points}) > 1
        rows = [self.row(p) for p in points]
        self.inverse = invert(rows)
        self.table, self.index = [], {}
        self.misfit = 0  # bytes, the largest seen at a check
        self.at = self.worst_at = 0  # stretches: the one that is fitted, the one of the largest misfit

    def row(self, point):
        b, s, rank = point
        row = [Fraction(x) for x in (1, s, s * s)]
        if not self.one_batch:
            row += [b * x for x in row]
        if self.with_rank:
            row += [rank * x for x in row]
        return row

    def fit(self, sizes):
        """The number of the polynomial through `sizes`, which are listed for points, then for checks."""
        n = len(self.points)
        if all(x == sizes[0] for x in sizes):
            width = len(self.points)
            coefficients = [Fraction(sizes[0])] + [Fraction(0)] * (width - 1)
        else:
            coefficients = [sum(a * x for a, x in zip(row, sizes[:n])) for row in self.inverse]
        for point, size in zip(self.checks, sizes[n:]):
            value = sum(a * x for a, x in zip(coefficients, self.row(point)))
            if abs(value - size) > self.misfit:
                self.misfit, self.worst_at = abs(value - size), self.at
        return self.number(self.widened(coefficients))

    def widened(self, coefficients):
        """In the order 1, s, s², b, bs, bs², then the same times the rank."""
        wide = []
        width = 3 if self.one_batch else 6
        for start in range(0, len(coefficients), width):
            part = coefficients[start : start + width]
            wide += part + [Fraction(0)] * (6 - len(part))
        while len(wide) > 6 and not any(wide[6:]):
            wide = wide[:6]
        return tuple(wide)

    def number(self, coefficients):
        if coefficients not in self.index:
            self.index[coefficients] = len(self.table)
            self.table.append(coefficients)
        return self.index[coefficients]


def invert(rows):
    n = len(rows)
    work = [list(row) + [Fraction(int(i == j)) for j in range(n)] for i, row in enumerate(rows)]
    for i in range(n):
        pivot = next(r for r in range(i, n) if work[r][i] != 0)
        work[i], work[pivot] = work[pivot], work[i]
        scale = work[i][i]
        work[i] = [x / scale for x in work[i]]
        for r in range(n):
            if r != i and work[r][i] != 0:
                factor = work[r][i]
                work[r] = [x - factor * y for x, y in zip(work[r], work[i])]
    return [row[n:] for row in work]


def mark_shape(mark):
    """A mark without the addresses that it carries."""
    return mark[:-1] if mark[0] in ("grad", "gathered", "dropped") else mark


def tokens(stretch):
    return [(kind,) if kind == "a" else (kind, block.stretch, block.number, block.parameter) for kind, block in stretch]


def align(passes, fitter):
    """Events of all stretches with sizes as polynomials: a list for each stretch of ("a", key, size number),
    ("f", key), ("k" or "l", parameter). Keys name blocks. Beside them: the block that becomes a gradient at each
    mark, and how many stretches are aggregated."""
    shapes = [[mark_shape(m) for m in p.marks] for p in passes]
    if any(shape != shapes[0] for shape in shapes):
        raise NotRecordable(first_difference(shapes))
    count = len(passes[0].stretches)
    by_name = [{(b.stretch, b.number): b for st in p.stretches for kind, b in st if kind == "a"} for p in passes]
    coarse = [len({tuple(tokens(p.stretches[j])) for p in passes}) > 1 for j in range(count)]
    settle(passes, by_name, coarse)
    adopted = {b.adopted: key_of(b, coarse) for b in by_name[0].values() if b.adopted is not None}
    events = []
    for j in range(count):
        fitter.at = j
        events.append(aggregated(passes, j, coarse, fitter) if coarse[j] else exact(passes, j, coarse, fitter))
    return events, adopted, sum(coarse)


def first_difference(shapes):
    for each in zip(*shapes):
        if any(m != each[0] for m in each):
            return "what runs depends on the size of the batch: " + " or ".join(sorted({str(m) for m in each}))
    return "what runs depends on the size of the batch"


def settle(passes, by_name, coarse):
    """A stretch is exact only if its blocks are freed in the same stretch, and adopted at the same mark, at every
    size."""
    changed = True
    while changed:
        changed = False
        for name in by_name[0]:
            if coarse[name[0]]:
                continue
            ends = {(blocks[name].death, blocks[name].adopted) for blocks in by_name if name in blocks}
            if len(ends) > 1:
                coarse[name[0]] = changed = True


def key_of(block, coarse):
    if not coarse[block.stretch]:
        return ("block", block.stretch, block.number)
    end = ("adopted", block.adopted) if block.adopted is not None else ("freed", block.death)
    return ("group", block.stretch, *end)


def exact(passes, j, coarse, fitter):
    events = []
    first = passes[0].stretches[j]
    sizes_at = [[b.size for kind, b in p.stretches[j] if kind == "a"] for p in passes]
    last_free = {}
    for i, (kind, block) in enumerate(first):
        if kind == "f":
            last_free[key_of(block, coarse)] = i
    allocated = 0
    for i, (kind, block) in enumerate(first):
        if kind == "a":
            sizes = [sizes[allocated] for sizes in sizes_at]
            allocated += 1
            events.append(("a", key_of(block, coarse), fitter.fit(sizes)))
        elif kind == "f":
            if last_free[key_of(block, coarse)] == i:
                events.append(("f", key_of(block, coarse)))
        else:
            events.append((kind, block.parameter))
    return events


def aggregated(passes, j, coarse, fitter):
    highest, groups, freed, parameters = [], [], [], []
    for p in passes:
        live = top = 0
        survive, died = {}, set()
        for kind, block in p.stretches[j]:
            if kind == "a":
                live += block.size
                top = max(top, live)
                if block.death != j or block.adopted is not None:
                    key = key_of(block, coarse)
                    survive[key] = survive.get(key, 0) + block.size
            elif kind == "f":
                live -= block.size
                if block.stretch != j:
                    died.add(key_of(block, coarse))
        highest.append(top)
        groups.append(survive)
        freed.append(died)
    for kind, block in passes[0].stretches[j]:
        if kind in "kl":
            parameters.append((kind, block.parameter))
    events = []
    if any(highest):
        temporary = ("temporary", j)
        events += [("a", temporary, fitter.fit(highest)), ("f", temporary)]
    events += [("f", key) for key in sorted(set().union(*freed), key=str)]
    for key in sorted({k for g in groups for k in g}, key=str):
        events.append(("a", key, fitter.fit([g.get(key, 0) for g in groups])))
    return events + parameters
