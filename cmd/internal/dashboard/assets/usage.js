// The usage of an entity as bars over time, and as a table.

import { T } from './texts.js';
import { get } from './api.js';
import { bdi, empty, guard, h, latest, number, segments, svg, table } from './dom.js';
import { compact, exact, now } from './format.js';

const day = (d) => d.toISOString().slice(0, 10);
const date = (d) => day(d).slice(5);
const year = (d) => day(d).slice(0, 4);
const hour = (d) => d.toISOString().slice(11, 16);
const month = (d) => d.toISOString().slice(0, 7);
const utc = (d, months, days, hours) => new Date(Date.UTC(d.getUTCFullYear(), d.getUTCMonth() - months, days, hours));

const windows = {
	hourly: { count: 48, start: (d, back) => utc(d, 0, d.getUTCDate(), d.getUTCHours() - back), label: hour, under: date, long: (d) => `${day(d)} ${hour(d)} UTC` },
	daily: { count: 30, start: (d, back) => utc(d, 0, d.getUTCDate() - back, 0), label: date, under: year, long: day },
	monthly: { count: 12, start: (d, back) => utc(d, back, 1, 0), label: (d) => month(d).slice(5), under: year, long: month },
};

export function usagePanel(entity, resources, first, signal) {
	const charts = h('div.charts');
	const box = h('div');
	const next = latest(signal);
	let kind = 'hourly';
	const resource = h('select', { 'aria-label': T.resource, onchange: () => load() }, resources.map((r) => h('option', { value: r, selected: r === first }, r)));
	const load = async () => {
		const { start, count } = windows[kind];
		const from = start(new Date(now()), count - 1).toISOString();
		const answer = await guard(box, () => get('api/usage', { entity, resource: resource.value, window: kind, from }, next()), load);
		if (answer) charts.replaceChildren(...draw(answer.snapshots, kind, signal));
	};
	load();
	return h('div', h('div.tools', resource, segments(T.window, T.windows, kind, (w) => { kind = w; load(); })), box, charts);
}

function draw(snapshots, kind, signal) {
	for (const s of snapshots) for (const [name, n] of Object.entries(s.would_refuse ?? {})) s.counters[T.wouldRefuse(name)] = n;
	const names = [...new Set(snapshots.flatMap((s) => Object.keys(s.counters)))].sort();
	if (!names.length) return [empty(T.noUsage)];
	const byStart = new Map(snapshots.map((s) => [Date.parse(s.start), s]));
	const { start, count, label, under, long } = windows[kind];
	const starts = Array.from({ length: count }, (_, i) => start(new Date(now()), count - 1 - i));
	return names.map((name) => chart(name, starts.map((at) => ({
		label: label(at), under: under(at), long: long(at), value: byStart.get(at.getTime())?.counters[name] ?? 0,
	})), signal));
}

const height = 162;
const edge = { left: 56, right: 8, top: 10, bottom: 38 };

// ticks returns round numbers from 0 that cover a value, four steps at most.
function ticks(most) {
	if (most <= 0) return [0, 1];
	const rough = most / 4;
	const power = 10 ** Math.floor(Math.log10(rough));
	const step = Math.max(1, [1, 2, 2.5, 5, 10].map((f) => f * power).find((s) => s >= rough && (s >= 10 || Number.isInteger(s))) ?? 10 * power);
	const marks = [0];
	while (marks[marks.length - 1] < most) marks.push(marks.length * step);
	return marks;
}

// chart returns a figure of points with label, the date under it, long label and value.
function chart(title, points, signal) {
	const total = points.reduce((sum, p) => sum + p.value, 0);
	const peak = points.reduce((a, b) => (b.value > a.value ? b : a), points[0]);
	const tip = h('output.tip', { hidden: true });
	const canvas = h('div.canvas');
	const words = T.chartSummary(title, exact(total, title), exact(peak.value, title), peak.long);
	const figure = h('figure.chart',
		h('figcaption', bdi(title), h('span.muted', { title: exact(total, title) }, T.chartTotal(compact(total, title)))),
		h('div.plot', canvas, tip),
		h('details', h('summary', T.asTable), table(title, [T.time, number(title)],
			points.map((p) => [p.long, exact(p.value, title)]))));
	let width = 0;
	const draw = () => {
		const next = Math.floor(canvas.clientWidth);
		if (!next || next === width) return;
		width = next;
		canvas.replaceChildren(paint(width, points, title, words, tip));
	};
	const observer = new ResizeObserver(draw);
	observer.observe(canvas);
	signal.addEventListener('abort', () => observer.disconnect());
	return figure;
}

function paint(width, points, title, words, tip) {
	const most = Math.max(...points.map((p) => p.value));
	const marks = ticks(most);
	const top = marks[marks.length - 1];
	const innerWidth = width - edge.left - edge.right;
	const innerHeight = height - edge.top - edge.bottom;
	const y = (value) => edge.top + innerHeight * (1 - Math.max(0, value) / top);
	const slot = innerWidth / points.length;
	const grid = marks.map((m) => [
		svg('line', { x1: edge.left, x2: width - edge.right, y1: y(m), y2: y(m), class: m ? 'grid-line' : 'base-line' }),
		svg('text.axis.end', { x: edge.left - 6, y: y(m) + 4 }, compact(m, title)),
	]);
	const stride = Math.ceil(points.length / Math.max(1, Math.floor(innerWidth / 56)));
	const marked = points.map((p, i) => ({ ...p, x: edge.left + slot * (i + 0.5) })).filter((_, i) => i % stride === 0);
	const labels = marked.map((p, i) => [
		svg('text.axis', { x: p.x, y: height - 20 }, p.label),
		p.under !== marked[i - 1]?.under && svg('text.axis', { x: p.x, y: height - 6 }, p.under),
	]);
	const bars = points.map((p, i) => {
		const x = edge.left + slot * i;
		const gap = Math.min(6, slot * 0.2);
		const size = Math.max(p.value > 0 ? 1.5 : 0, y(0) - y(p.value));
		return svg('g.column', { role: 'img', tabindex: i === points.length - 1 ? 0 : -1, 'aria-label': `${p.long}: ${exact(p.value, title)}` },
			svg('rect.hit', { x, y: edge.top, width: slot, height: innerHeight }),
			svg('rect.column-bar', { x: x + gap / 2, y: y(0) - size, width: Math.max(1, slot - gap), height: size, rx: Math.min(2, slot / 4) }));
	});
	const show = (i) => {
		tip.hidden = i == null;
		if (i == null) return;
		tip.textContent = `${points[i].long}: ${exact(points[i].value, title)}`;
		const middle = edge.left + slot * (i + 0.5);
		tip.style.left = `${Math.min(width - tip.offsetWidth, Math.max(0, middle - tip.offsetWidth / 2))}px`;
	};
	const at = (event) => {
		const i = bars.indexOf(event.target.closest?.('.column'));
		return i < 0 ? null : i;
	};
	const keys = (event) => {
		const i = at(event);
		const to = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: bars.length - 1 }[event.key];
		if (i == null || to == null || !bars[to]) return;
		event.preventDefault();
		bars[i].setAttribute('tabindex', -1);
		bars[to].setAttribute('tabindex', 0);
		bars[to].focus();
	};
	return svg('svg', {
		width, height, viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': words, onkeydown: keys,
		onpointerover: (e) => show(at(e)), onpointerleave: () => show(null), onfocusin: (e) => show(at(e)), onfocusout: () => show(null),
	}, grid, labels, bars);
}
