// The usage of an entity as charts.

import { T } from './texts.js';
import { get } from './api.js';
import { empty, guard, h, latest, segments } from './dom.js';
import { chart } from './chart.js';
import { now } from './format.js';

const day = (d) => d.toISOString().slice(0, 10);
const hour = (d) => d.toISOString().slice(11, 16);
const month = (d) => d.toISOString().slice(0, 7);
const utc = (d, months, days, hours) => new Date(Date.UTC(d.getUTCFullYear(), d.getUTCMonth() - months, days, hours));

const windows = {
	hourly: { count: 48, start: (d, back) => utc(d, 0, d.getUTCDate(), d.getUTCHours() - back), label: (d) => (d.getUTCHours() ? hour(d) : day(d).slice(5)), long: (d) => `${day(d)} ${hour(d)} UTC` },
	daily: { count: 30, start: (d, back) => utc(d, 0, d.getUTCDate() - back, 0), label: (d) => day(d).slice(5), long: day },
	monthly: { count: 12, start: (d, back) => utc(d, back, 1, 0), label: month, long: month },
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
		if (answer) charts.replaceChildren(...draw(answer.snapshots ?? [], kind, signal));
	};
	load();
	return h('div', h('div.tools', resource, segments(T.window, T.windows, kind, (w) => { kind = w; load(); })), box, charts);
}

function draw(snapshots, kind, signal) {
	const names = [...new Set(snapshots.flatMap((s) => Object.keys(s.counters)))].sort();
	if (!names.length) return [empty(T.noUsage)];
	const byStart = new Map(snapshots.map((s) => [Date.parse(s.start), s]));
	const { start, count, label, long } = windows[kind];
	const starts = Array.from({ length: count }, (_, i) => start(new Date(now()), count - 1 - i));
	return names.map((name) => chart(name, starts.map((at) => ({
		label: label(at), long: long(at), value: byStart.get(at.getTime())?.counters[name] ?? 0,
	})), signal));
}
