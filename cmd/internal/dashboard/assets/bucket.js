// A bucket as a row.

import { T } from './texts.js';
import { entityLink, every, flash, h, resourceLink, setAttribute, setText, sign } from './dom.js';
import { ago, compact, dateTime, duration, exact, limitText, percent, refill } from './format.js';
import { levelName, offText } from './levels.js';
import { on, watch } from './live.js';
import { keyOf } from './state.js';

const signs = { green: '●', yellow: '◆', red: '▲', debt: '▼' };

export function level(limit) {
	if (limit.debt > 0) return 'debt';
	if (limit.missing_percent < 50) return 'green';
	return limit.missing_percent < 80 ? 'yellow' : 'red';
}

export function worst(row) {
	return row.limits.filter((l) => !l.shadow).reduce((a, b) => (a && a.missing_percent >= b.missing_percent ? a : b), null);
}

// tightestFirst orders rows by their worst limit, and then by name.
export function tightestFirst(a, b) {
	const missing = (row) => worst(row)?.missing_percent ?? -1;
	const keys = [a, b].map((row) => keyOf(row.entity, row.resource));
	return missing(b) - missing(a) || (keys[0] < keys[1] ? -1 : 1);
}

// badge returns what a limit lacks as a sign and a number.
export function badge(limit) {
	const shade = level(limit);
	const text = shade === 'debt' ? T.debt(compact(limit.debt, limit.name)) : percent(limit.missing_percent);
	return h('span', { class: `use ${shade}`, 'data-level': shade, title: `${limit.name}: ${T.levels[shade]}` },
		sign(signs[shade]), text, h('span.hidden', ` ${T.levels[shade]}`));
}

export class Meter {
	constructor() {
		this.bar = h('span.bar-fill');
		this.element = h('span.bar', { role: 'meter', 'aria-valuemin': 0, 'aria-valuemax': 100 }, this.bar);
	}

	update(label, missing, words) {
		const filled = Math.min(100, Math.max(0, missing));
		this.bar.style.transform = `scaleX(${filled / 100})`;
		setAttribute(this.element, 'aria-label', label);
		setAttribute(this.element, 'aria-valuenow', Math.floor(filled));
		setAttribute(this.element, 'aria-valuetext', `${percent(missing)} ${T.missing}, ${words}`);
	}
}

let longest = 10;

class Line {
	constructor() {
		this.name = h('bdi.limit-name', { dir: 'auto' });
		this.meter = new Meter();
		this.amount = h('span');
		this.sign = sign('');
		this.percent = h('span.percent');
		this.refill = h('span.refill');
		this.full = h('span.full');
		this.element = h('div.limit', this.name, this.meter.element, h('span.amount', this.amount),
			h('span.use', this.sign, this.percent), this.refill, this.full);
	}

	update(limit, key) {
		const before = this.limit;
		this.limit = limit;
		this.received = performance.now();
		const shade = level(limit);
		const debt = shade === 'debt';
		const name = limit.shadow ? `◌ ${limit.name}` : limit.name;
		setText(this.name, name);
		// All lines make room for the longest name.
		if (name.length > longest) {
			longest = name.length;
			document.documentElement.style.setProperty('--name', `${Math.min(24, longest) * 0.57}rem`);
		}
		setAttribute(this.name, 'title', limitText(limit));
		setAttribute(this.element, 'data-level', shade);
		setAttribute(this.element, 'data-limit', limit.name);
		const precise = T.availableExact(exact(limit.available, limit.name), exact(limit.capacity, limit.name), debt ? exact(limit.debt, limit.name) : '')
			+ (limit.window_end ? T.windowEnds(dateTime(limit.window_end)) : '') + (limit.shadow ? `, ${T.shadow}` : '');
		this.meter.update(T.meter(limit.name, key), limit.missing_percent, `${T.levels[shade]}, ${precise}`);
		setAttribute(this.element, 'title', precise);
		const left = debt ? T.debt(compact(limit.debt, limit.name)) : compact(limit.available, limit.name);
		setText(this.amount, `${left} / ${compact(limit.capacity, limit.name)}`);
		if (before && (limit.available < before.available || limit.capacity !== before.capacity)) flash(this.amount);
		setText(this.sign, signs[shade]);
		setText(this.percent, percent(limit.missing_percent));
		setText(this.refill, refill(limit));
		this.tick();
	}

	// tick counts the time to full down; amounts wait for the server.
	tick() {
		const left = this.limit.full_after_seconds - (performance.now() - this.received) / 1000;
		setText(this.full, left > 0 ? duration(left) : T.full);
	}
}

// BucketRow shows a bucket. Its cells have a role, since rows stand in tables and in trees.
export class BucketRow {
	constructor(row, { cell = 'cell', names = 'resource', tab } = {}) {
		this.lines = h('div.cell.limits', { role: cell });
		this.source = h('div.cell.source', { role: cell });
		this.activity = h('div.cell.activity', { role: cell });
		this.off = h('span.use.red');
		this.title = h('div.cell.title', { role: cell }, h('div.names', titleOf(row, names, tab), this.off));
		this.element = h('div.row.bucket', { role: 'row', 'data-entity': row.entity, 'data-resource': row.resource },
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
		const { level: source, entity, resource } = row.source;
		setText(this.source, levelName(source));
		setAttribute(this.source, 'title', T.sourceTitle(levelName(source), entity, resource));
		setAttribute(this.activity, 'title', dateTime(row.updated_at));
		setText(this.off, row.off ? `⊘ ${T.disabled}` : '');
		setAttribute(this.off, 'title', row.off ? offText(row.off) : '');
		this.tick();
	}

	tick() {
		this.parts.forEach((p) => p.tick());
		setText(this.activity, ago(this.row.updated_at));
	}
}

function titleOf(row, names, tab) {
	const resource = resourceLink(row.resource, { tabindex: tab });
	const entity = entityLink(row.entity, row.name, { class: 'who', tabindex: tab });
	return { resource, entity, both: [entity, resource] }[names];
}

export function head(cell, first) {
	const column = (name, ...content) => h('div', { class: `cell ${name}`, role: cell }, ...content);
	return h('div.row.head', { role: 'row' },
		column('title', first),
		column('limits', h('div.limit',
			h('span', T.limit), h('span', T.missingShare), h('span.amount', T.available),
			h('span.use'), h('span.refill', T.refill), h('span.full', T.timeToFull))),
		column('source', T.source),
		column('activity', T.activity));
}

// bucketTable shows rows that follow the stream, for views with few of them.
export function bucketTable(label, rows, { names = 'resource', signal, watching, part }) {
	const shown = new Map();
	const body = h('div', { role: 'rowgroup' });
	const element = h('div.grid', { role: 'table', 'aria-label': label },
		h('div', { role: 'rowgroup' }, head('columnheader', T.columns[names])), body);
	const add = (more) => {
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
		watch([...watching].map((k) => JSON.parse(k)), part);
	};
	add(rows);
	on('rows', (message) => message.rows.forEach((row) => shown.get(keyOf(row.entity, row.resource))?.update(row)), signal);
	every(1000, signal, () => shown.forEach((row) => row.tick()));
	return { element, add };
}
