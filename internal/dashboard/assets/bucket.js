// A bucket as a row: its limits as bars, their source and the last activity.

import { T } from './texts.js';
import { bdi, every, flash, h, link, setAttribute, setText, sign } from './dom.js';
import { ago, compact, dateTime, duration, exact, percent, refill } from './format.js';
import { levelName } from './levels.js';
import { on, watch } from './live.js';
import { keyOf, remember } from './state.js';

const signs = { green: '●', yellow: '◆', red: '▲', debt: '▼' };

// level returns the color of a limit by its use.
export function level(limit) {
	if (limit.debt > 0) return 'debt';
	if (limit.used_percent < 50) return 'green';
	return limit.used_percent < 80 ? 'yellow' : 'red';
}

// worst returns the limit of a row that is used most.
export function worst(row) {
	const weight = (l) => (l.debt > 0 ? 100 + l.debt / Math.max(1, l.capacity) : l.used_percent);
	return row.limits.reduce((a, b) => (a && weight(a) >= weight(b) ? a : b), null);
}

// badge returns the use of a limit as a sign and a number.
export function badge(limit) {
	const shade = level(limit);
	const text = shade === 'debt' ? T.debt(compact(limit.debt)) : percent(limit.used_percent);
	return h('span', { class: `use ${shade}`, 'data-level': shade, title: `${limit.name}: ${T.levels[shade]}` },
		sign(signs[shade]), text, h('span', { class: 'hidden' }, ` ${T.levels[shade]}`));
}

// Line shows one limit and changes with it.
class Line {
	constructor() {
		this.name = h('bdi', { class: 'limit-name', dir: 'auto' });
		this.bar = h('span', { class: 'bar-fill' });
		this.meter = h('span', { class: 'bar', role: 'meter', 'aria-valuemin': 0, 'aria-valuemax': 100 }, this.bar);
		this.amount = h('span');
		this.sign = sign('');
		this.percent = h('span', { class: 'percent' });
		this.refill = h('span', { class: 'refill' });
		this.full = h('span', { class: 'full' });
		this.element = h('div', { class: 'limit' }, this.name, this.meter, h('span', { class: 'amount' }, this.amount),
			h('span', { class: 'use' }, this.sign, this.percent), this.refill, this.full);
	}

	update(limit, key) {
		const before = this.limit;
		this.limit = limit;
		this.received = performance.now();
		const shade = level(limit);
		const debt = shade === 'debt';
		const used = debt ? 100 : Math.min(100, Math.max(0, limit.used_percent));
		setText(this.name, limit.name);
		setAttribute(this.name, 'title', limit.name);
		setAttribute(this.element, 'data-level', shade);
		setAttribute(this.element, 'data-limit', limit.name);
		this.bar.style.transform = `scaleX(${used / 100})`;
		const precise = T.availableExact(exact(limit.available), exact(limit.capacity), debt ? exact(limit.debt) : '');
		setAttribute(this.meter, 'aria-valuenow', Math.floor(used));
		setAttribute(this.meter, 'aria-valuetext', `${percent(used)} ${T.used}, ${T.levels[shade]}, ${precise}`);
		setAttribute(this.meter, 'aria-label', T.meter(limit.name, key));
		setAttribute(this.element, 'title', precise);
		const left = debt ? T.debt(compact(limit.debt)) : compact(limit.available);
		setText(this.amount, `${left} / ${compact(limit.capacity)}`);
		if (before && (limit.available < before.available || limit.capacity !== before.capacity)) flash(this.amount);
		setText(this.sign, signs[shade]);
		setText(this.percent, percent(used));
		setText(this.refill, refill(limit));
		this.tick();
	}

	// tick counts the time to full down; amounts wait for the server.
	tick() {
		const left = this.limit.full_after_seconds - (performance.now() - this.received) / 1000;
		setText(this.full, left > 0 ? T.fullIn(duration(left)) : T.full);
	}
}

// BucketRow shows a bucket. Its cells have a role, since rows stand in tables and in trees.
export class BucketRow {
	constructor(row, { cell = 'cell', names = 'resource', tab } = {}) {
		this.lines = h('div', { class: 'cell limits', role: cell });
		this.source = h('div', { class: 'cell source', role: cell });
		this.activity = h('div', { class: 'cell activity', role: cell });
		this.title = h('div', { class: 'cell title', role: cell }, h('div', { class: 'names' }, titleOf(row, names, tab)));
		this.element = h('div', { class: 'row bucket', role: 'row', 'data-entity': row.entity, 'data-resource': row.resource },
			this.title, this.lines, this.source, this.activity);
		this.parts = [];
		this.update(row);
	}

	update(row) {
		this.row = row;
		if (this.parts.length !== row.limits.length) {
			this.parts = row.limits.map(() => new Line());
			this.lines.replaceChildren(...this.parts.map((p) => p.element));
		}
		const key = `${row.entity}, ${row.resource}`;
		row.limits.forEach((limit, i) => this.parts[i].update(limit, key));
		setText(this.source, levelName(row.source?.level));
		setAttribute(this.source, 'title', T.sourceTitle(levelName(row.source?.level), row.source?.entity, row.source?.resource));
		setAttribute(this.activity, 'title', dateTime(row.updated_at));
		this.tick();
	}

	tick() {
		this.parts.forEach((p) => p.tick());
		setText(this.activity, ago(this.row.updated_at));
	}
}

function titleOf(row, names, tab) {
	const resource = link('resource', { name: row.resource }, { tabindex: tab }, bdi(row.resource));
	const entity = link('entity', { id: row.entity }, { class: 'who', tabindex: tab }, bdi(row.name || row.entity, '', row.entity));
	return { resource, entity, both: [entity, resource] }[names];
}

// head returns the row of column titles.
export function head(cell, first) {
	const column = (name, ...content) => h('div', { class: `cell ${name}`, role: cell }, ...content);
	return h('div', { class: 'row head', role: 'row' },
		column('title', first),
		column('limits', h('div', { class: 'limit' },
			h('span', null, T.limit), h('span', null, T.usedShare), h('span', { class: 'amount' }, T.availableOfCapacity),
			h('span', { class: 'use' }, T.usedColumn), h('span', { class: 'refill' }, T.refill), h('span', { class: 'full' }, T.timeToFull))),
		column('source', T.source),
		column('activity', T.activity));
}

// bucketTable shows rows that follow the stream, for views with few of them.
export function bucketTable(label, rows, { names = 'resource', signal, watching }) {
	const shown = new Map();
	const body = h('div', { role: 'rowgroup' });
	const element = h('div', { class: 'grid', role: 'table', 'aria-label': label },
		h('div', { role: 'rowgroup' }, head('columnheader', T.columns[names])), body);
	const add = (more) => {
		remember(more);
		for (const row of more) {
			const key = keyOf(row.entity, row.resource);
			if (shown.has(key)) {
				shown.get(key).update(row);
				continue;
			}
			shown.set(key, new BucketRow(row, { names }));
			body.append(shown.get(key).element);
		}
		more.forEach((row) => watching.add(keyOf(row.entity, row.resource)));
		watch([...watching].map((k) => JSON.parse(k)));
	};
	add(rows);
	on('rows', (message) => message.rows.forEach((row) => shown.get(keyOf(row.entity, row.resource))?.update(row)), signal);
	every(1000, signal, () => shown.forEach((row) => row.tick()));
	return { element, add };
}
