// The tree of all buckets, and the tightest of them.

import { T } from './texts.js';
import { get } from './api.js';
import { address, bdi, button, entityLink, every, h, latest, problemBox, segments, setAttribute, setText } from './dom.js';
import { badge, BucketRow, head, level, tightestFirst, worst } from './bucket.js';
import { demoPanel } from './demo.js';
import { exact } from './format.js';
import { connected, on, watch } from './live.js';
import { keyOf, state } from './state.js';
import { bucketLine, Tree } from './tree.js';
import { Windowed } from './windowed.js';

const pageSize = 100;

// kept survives a visit to another view, so that going back is instant.
const kept = { tree: new Tree(), collapsed: new Set(), next: '', searched: null, order: 'tightest', search: '', tightest: [], scanned: 0, damaged: 0, done: false, active: '' };

const tight = () => kept.order === 'tightest';

// ranked reports whether the rows are the tightest of all. A search has to look beyond those.
const ranked = () => tight() && !kept.search;

const loaded = () => kept.searched === kept.search;

export function show({ main, params, signal, heading }) {
	return new Overview(main, params, signal, heading);
}

class Overview {
	constructor(main, params, signal, heading) {
		this.signal = signal;
		this.next = latest(signal);
		const order = params.get('order') === 'name' ? 'name' : 'tightest';
		Object.assign(kept, { order, search: params.get('search') ?? '' });
		this.build(main, heading);
		on('rows', (message) => this.changed(message), signal);
		on('state', ({ state: s }) => s === 'live' && this.refresh(), signal);
		every(1000, signal, () => this.list.shown.forEach((part) => part.tick?.()));
		this.draw();
		this.reload();
		every(state.info.read_budget ? 15000 : 3000, signal, () => this.refresh());
	}

	build(main, heading) {
		this.input = h('input', {
			type: 'search', id: 'search', placeholder: T.search, value: kept.search, autocomplete: 'off', spellcheck: 'false', maxlength: 256, oninput: () => this.typed(),
		});
		this.fold = button('', () => this.foldAll(), { class: 'quiet' });
		this.summary = h('p.summary', { role: 'status' });
		this.trouble = h('div');
		this.body = h('div.rows', { role: 'rowgroup', tabindex: -1 });
		this.grid = h('div.grid.tree', { role: 'treegrid', 'aria-label': T.overview, onkeydown: (e) => this.key(e), onclick: (e) => this.click(e) },
			h('div.head-group', { role: 'rowgroup' }, head('columnheader', T.columns.both)), this.body);
		this.more = button(T.showMore, () => this.busy || this.loadNames(this.running, false), { class: 'more', hidden: true });
		this.empty = h('div.empty', { hidden: true });
		const orders = segments(T.order, T.orders, kept.order, (o) => this.setOrder(o));
		main.append(h('div.title-line', heading(T.overview), this.summary));
		if (state.info.demo) main.append(demoPanel(state.info.demo, this.signal));
		main.append(h('div.tools',
			h('label.hidden', { for: 'search' }, T.search), this.input, orders, this.fold), this.trouble, this.grid, this.empty, this.more);
		this.list = new Windowed(this.body, {
			create: (item, i) => this.create(item, i), change: (part, item, i) => this.change(part, item, i),
			visible: (items) => watch(items.filter((i) => i.kind === 'bucket').map((i) => [i.row.entity, i.row.resource]), 'rows'), signal: this.signal,
		});
	}

	typed() {
		clearTimeout(this.timer);
		this.timer = setTimeout(() => {
			kept.search = this.input.value.trim();
			this.remember();
			this.reload(true);
		}, 180);
	}

	setOrder(order) {
		kept.order = order;
		this.list.clear();
		this.remember();
		this.draw();
		this.reload();
	}

	remember() {
		const order = tight() ? '' : kept.order;
		history.replaceState(history.state, '', address('', { search: kept.search, order }));
	}

	reload(fresh) {
		this.running = this.next();
		this.busy = false;
		if (ranked()) this.loadTightest(this.running);
		else if (fresh || !loaded()) this.loadNames(this.running, true);
	}

	refresh() {
		if (!connected()) return;
		if (ranked()) {
			if (this.trouble.firstChild) this.reload();
		} else if (!loaded() && !this.busy) this.reload();
		else if (loaded() && !kept.next && !this.busy && kept.tree.rows.size <= pageSize) this.loadNames(this.running, true, true);
	}

	// loadNames adds pages until there is something to show, and starts anew if asked.
	async loadNames(signal, fresh, quiet) {
		this.busy = true;
		const { search } = kept;
		let after = fresh ? '' : kept.next;
		const limit = fresh || state.info.read_budget ? pageSize : 1000;
		let found = 0;
		let scanned = fresh ? 0 : kept.scanned;
		let damaged = fresh ? 0 : kept.damaged;
		const tree = fresh ? new Tree() : kept.tree;
		if (!quiet) this.note(T.loading);
		try {
			do {
				const page = await get('api/overview', { order: 'name', limit, after, search }, signal);
				tree.merge(page.rows, page.ancestors);
				found += page.rows.length;
				scanned += page.scanned;
				damaged += page.damaged;
				after = page.next;
				if (quiet && after) break;
				Object.assign(kept, { tree, next: after, searched: search, scanned, damaged });
				this.trouble.replaceChildren();
				this.draw();
				if (after && found < pageSize / 2) this.note(T.searching(exact(scanned)));
			} while (after && found < pageSize / 2);
		} catch (err) {
			this.failed(err, () => this.loadNames(this.running, fresh));
		} finally {
			if (!signal.aborted) this.busy = false;
		}
	}

	async loadTightest(signal) {
		try {
			const page = await get('api/overview', { order: 'tightest', limit: pageSize }, signal);
			Object.assign(kept, { tightest: state.info.read_budget ? this.latestOf(page.rows) : page.rows, tightestScanned: page.scanned, tightestDamaged: page.damaged, done: page.done });
			this.trouble.replaceChildren();
			this.draw();
			setTimeout(() => signal.aborted || this.loadTightest(signal), page.done ? 3000 : 1000);
		} catch (err) {
			this.failed(err, () => this.reload());
		}
	}

	// latestOf returns rows as the stream has shown them since: where reads are billed, a scan takes minutes.
	latestOf(rows) {
		const known = new Map(kept.tightest.map((row) => [keyOf(row.entity, row.resource), row]));
		const latest = (row) => {
			const old = known.get(keyOf(row.entity, row.resource));
			return old && Date.parse(old.updated_at) >= Date.parse(row.updated_at) ? old : row;
		};
		return rows.map(latest).sort(tightestFirst);
	}

	failed(err, retry) {
		if (err.name === 'AbortError') return;
		this.trouble.replaceChildren(problemBox(err, retry));
		this.summarize();
	}

	draw() {
		const flat = tight();
		const rows = () => (ranked() ? kept.tightest : [...kept.tree.rows.values()].sort(tightestFirst));
		const lines = flat ? rows().map((row) => bucketLine(row, 1)) : kept.tree.flatten(kept.collapsed);
		setAttribute(this.grid, 'data-order', kept.order);
		setAttribute(this.grid, 'aria-rowcount', lines.length + 1);
		this.grid.hidden = lines.length === 0; // before heights are measured
		this.list.set(lines);
		this.more.hidden = ranked() || !kept.next;
		const whole = ranked() ? kept.done : loaded() && !kept.next;
		this.empty.hidden = lines.length > 0 || !whole;
		this.empty.textContent = kept.search ? T.nothingFound(kept.search) : T.noBuckets;
		this.fold.hidden = flat || !kept.tree.nodes.size;
		setText(this.fold, kept.collapsed.size ? T.expandAll : T.collapseAll);
		this.summarize();
	}

	note(text) {
		setText(this.summary, text);
	}

	summarize() {
		if (ranked()) {
			this.note(T.tightest(kept.tightest.length, exact(kept.tightestScanned ?? 0), kept.done) + T.damaged(kept.tightestDamaged));
			return;
		}
		if (!loaded()) return;
		const counts = { red: 0, debt: 0 };
		for (const row of kept.tree.rows.values()) {
			const limit = worst(row);
			const shade = limit && level(limit);
			if (shade in counts) counts[shade] += 1;
		}
		this.note(T.overviewSummary(exact(kept.tree.rows.size), Boolean(kept.next), exact(counts.red), exact(counts.debt)) + T.damaged(kept.damaged));
	}

	create(item, i) {
		const part = item.kind === 'entity' ? new EntityRow(item) : new BucketRow(item.row, { cell: 'gridcell', names: tight() ? 'both' : 'resource', tab: -1 });
		part.element.dataset.key = item.key;
		this.change(part, item, i);
		return part;
	}

	change(part, item, i) {
		part.element.style.setProperty('--depth', item.depth - 1);
		setAttribute(part.element, 'aria-level', item.depth);
		setAttribute(part.element, 'aria-rowindex', i + 2);
		setAttribute(part.element, 'tabindex', i === this.list.holder(kept.active) ? 0 : -1);
		if (item.kind === 'entity') part.update(item);
		else if (part.row !== item.row) part.update(item.row);
	}

	changed({ rows, gone }) {
		let structure = false;
		for (const row of rows) {
			structure = kept.tree.update(row) || structure;
			const key = keyOf(row.entity, row.resource);
			kept.tightest = kept.tightest.map((old) => (old.entity === row.entity && old.resource === row.resource ? row : old));
			const at = this.list.index.get(key);
			if (at == null) continue;
			this.list.items[at].row = row;
			this.list.shown.get(key)?.update(row);
			this.list.shown.get(`e${row.entity}`)?.summarize();
		}
		for (const [entity, resource] of gone) {
			const left = kept.tightest.filter((row) => row.entity !== entity || row.resource !== resource);
			structure = kept.tree.remove(entity, resource) || left.length < kept.tightest.length || structure;
			kept.tightest = left;
		}
		if (structure) this.draw();
		else this.summarize();
	}

	foldAll() {
		const open = kept.collapsed.size === 0;
		kept.collapsed = new Set(open ? kept.tree.nodes.keys() : []);
		this.draw();
	}

	click(event) {
		const row = event.target.closest('[data-key]');
		if (!row) return;
		kept.active = row.dataset.key;
		if (event.target.closest('.fold')) this.flip(this.list.index.get(kept.active));
		for (const [key, part] of this.list.shown) setAttribute(part.element, 'tabindex', key === kept.active ? 0 : -1);
	}

	flip(at) {
		const item = this.list.items[at];
		if (item?.kind !== 'entity') return;
		if (item.open) kept.collapsed.add(item.id);
		else kept.collapsed.delete(item.id);
		this.draw();
	}

	// key moves in the tree as the pattern for tree grids says.
	key(event) {
		if (event.target.closest('input, select, textarea') || event.altKey || event.ctrlKey || event.metaKey) return;
		const items = this.list.items;
		const at = this.list.index.get(event.target.closest('[data-key]')?.dataset.key ?? kept.active) ?? 0;
		const item = items[at];
		const opens = item?.kind === 'entity';
		const moves = {
			ArrowDown: () => this.go(at + 1),
			ArrowUp: () => this.go(at - 1),
			PageDown: () => this.go(Math.min(items.length - 1, at + 10)),
			PageUp: () => this.go(Math.max(0, at - 10)),
			Home: () => this.go(0),
			End: () => this.go(items.length - 1),
			ArrowRight: () => (opens && !item.open ? this.flip(at) : opens && items[at + 1]?.depth > item.depth && this.go(at + 1)),
			ArrowLeft: () => (opens && item.open ? this.flip(at) : this.go(items.findLastIndex((o, i) => i < at && o.depth < item.depth))),
			' ': () => this.flip(at),
			Enter: () => this.list.shown.get(item?.key)?.element.querySelector('a')?.click(),
		};
		const move = moves[event.key];
		if (!move || (event.key === 'Enter' && event.target.closest('a, button'))) return;
		event.preventDefault();
		move();
	}

	go(at) {
		const item = this.list.items[at];
		if (!item) return;
		kept.active = item.key;
		for (const part of this.list.shown.values()) setAttribute(part.element, 'tabindex', -1);
		const { element } = this.list.reveal(at);
		element.tabIndex = 0;
		element.focus({ preventScroll: true });
	}
}

class EntityRow {
	constructor(item) {
		this.fold = button(h('span', { 'aria-hidden': 'true' }, '›'), null, { class: 'fold', tabindex: -1 });
		this.name = h('span.names');
		this.facts = h('span.facts');
		this.use = h('span.uses');
		this.element = h('div.row.entity', { role: 'row', 'data-entity': item.id },
			h('div.cell', { role: 'gridcell', 'aria-colspan': 4 }, this.fold, this.name, this.facts, this.use));
	}

	update(item) {
		this.item = item;
		const { node } = item;
		setAttribute(this.element, 'aria-expanded', item.open);
		setAttribute(this.fold, 'aria-label', item.open ? T.collapse(item.id) : T.expand(item.id));
		const label = `${node.name}\n${item.id}`;
		if (this.label !== label) {
			this.label = label;
			this.name.replaceChildren(entityLink(item.id, node.name, { class: 'who', tabindex: -1 }), node.name && node.name !== item.id ? bdi(item.id, 'id') : '');
		}
		const facts = [item.children ? T.children(item.children) : '', node.parent && node.cascade ? T.cascades : ''].filter(Boolean);
		setText(this.facts, facts.join(' · '));
		this.summarize();
	}

	summarize() {
		const rows = this.item.open ? [] : [...this.item.node.buckets.values()];
		const limits = rows.map(worst).filter(Boolean);
		const limit = limits.length ? worst({ limits }) : null;
		this.use.replaceChildren(...(limit ? [badge(limit)] : []));
	}
}
