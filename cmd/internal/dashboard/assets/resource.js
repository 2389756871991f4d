// One resource over all entities, or the list of resources.

import { T } from './texts.js';
import { get } from './api.js';
import { auditCard } from './audit.js';
import { badge, bucketTable, Meter } from './bucket.js';
import { bdi, card, empty, every, guard, h, link, resourceLink, table } from './dom.js';
import { compact, exact, limitText } from './format.js';
import { offNotes, offText } from './levels.js';
import { connected } from './live.js';
import { canChange } from './state.js';

export async function show(context) {
	const name = context.params.get('name');
	if (name == null) await list(context);
	else await one(context, name);
}

async function list({ main, signal, heading }) {
	const box = h('div');
	main.append(heading(T.resources), box);
	const load = async () => {
		const answer = await guard(box, () => get('api/resources', { with: 'limits' }, signal), load);
		if (!answer) return;
		main.append(answer.resources.length ? h('div.card', table(T.resources, [T.resource, T.limits, T.state], answer.resources.map(line))) : empty(T.noResources),
			answer.more ? h('p.muted', T.moreResources(exact(answer.more))) : '');
	};
	await load();
}

function line({ name, limits, disabled }) {
	return [
		resourceLink(name),
		limits.length ? h('ul.chips', limits.map((l) => h('li', bdi(limitText(l))))) : h('span.muted', T.ofSystem),
		disabled.length ? h('span.use.red', { title: disabled.map(offText).join('\n') }, `⊘ ${T.disabled}`) : '–',
	];
}

async function one({ main, signal, heading, title }, name) {
	title(T.resourceTitle(name));
	const box = h('div');
	const totals = h('div.totals');
	const note = h('p.summary', { role: 'status' }, T.loading);
	const top = h('div');
	const defaults = h('div');
	const rest = h('div', card(T.overAll, note, totals), card(T.topTen, top), card(T.defaults, defaults), auditCard(`$RESOURCE:${name}`, signal));
	const off = h('div');
	main.append(h('p.crumb', link('resource', null, T.resources), ' ›'), heading(bdi(name)), box, off, rest);
	const watching = new Set();
	let rows = null;
	let shown = '';
	let done = false;
	let at = 0;
	const load = async () => {
		at = Date.now();
		const answer = await guard(box, () => get('api/resource', { name }, signal), load);
		rest.hidden = !answer && !shown;
		if (!answer) return;
		done = answer.done;
		off.replaceChildren(...offNotes(answer.disabled));
		note.textContent = T.resourceSummary(exact(answer.entities), exact(answer.scanned), done);
		totals.replaceChildren(...answer.limits.map(total));
		const order = JSON.stringify(answer.top.map((r) => r.entity));
		if (order === shown) rows.add(answer.top);
		else {
			shown = order;
			watching.clear();
			rows = bucketTable(T.topTen, answer.top, { names: 'entity', signal, watching });
			top.replaceChildren(answer.top.length ? rows.element : empty(T.noBuckets));
		}
		defaults.replaceChildren(...defaultLimits(name, answer.defaults));
	};
	await load();
	every(1000, signal, () => connected() && Date.now() - at >= (done ? 5000 : 1000) && load());
}

function total(limit) {
	const missing = Math.min(100, Math.max(0, limit.missing_percent));
	const meter = new Meter();
	const words = T.availableExact(exact(limit.available, limit.name), exact(limit.capacity, limit.name), '');
	const use = badge({ ...limit, debt: 0 });
	meter.update(limit.name, missing, words);
	return h('div.total', { 'data-level': use.dataset.level, title: words },
		bdi(limit.name, 'limit-name'),
		h('strong', compact(limit.available, limit.name), h('span.muted', ` / ${compact(limit.capacity, limit.name)}`)),
		meter.element, use);
}

function defaultLimits(name, limits) {
	return [
		limits?.length ? h('ul.chips', limits.map((l) => h('li', bdi(limitText(l))))) : empty(T.noDefaults),
		canChange() ? h('p.actions', link('changes', { resource: name }, { class: 'button' }, T.changeDefaults)) : '',
	];
}
