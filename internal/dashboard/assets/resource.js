// One resource over all entities, or the list of resources.

import { T } from './texts.js';
import { get } from './api.js';
import { auditCard } from './audit.js';
import { badge, bucketTable } from './bucket.js';
import { bdi, card, empty, every, h, link } from './dom.js';
import { compact, exact, limitText, percent } from './format.js';
import { guard } from './problem.js';
import { canChange } from './state.js';

// show shows the view.
export async function show(context) {
	const name = context.params.get('name');
	if (name == null) await list(context);
	else await one(context, name);
}

async function list({ main, signal, heading }) {
	const box = h('div');
	main.append(heading(T.resources), box);
	const load = async () => {
		const answer = await guard(box, () => get('api/resources', null, signal), load);
		if (!answer) return;
		main.append(answer.resources?.length
			? h('ul', { class: 'tiles' }, answer.resources.map((n) => h('li', null, link('resource', { name: n }, null, bdi(n)))))
			: empty(T.noResources));
	};
	await load();
}

async function one({ main, signal, heading, title }, name) {
	title(T.resourceTitle(name));
	const box = h('div');
	const totals = h('div', { class: 'totals' });
	const note = h('p', { class: 'summary', role: 'status' }, T.loading);
	const top = h('div');
	const defaults = h('div');
	const rest = h('div', null, card(T.overAll, note, totals), card(T.topTen, top), card(T.defaults, defaults), auditCard(`$RESOURCE:${name}`, signal));
	main.append(h('p', { class: 'crumb' }, link('resource', null, null, T.resources), ' ›'), heading(bdi(name)), box, rest);
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
		note.textContent = T.resourceSummary(exact(answer.entities), exact(answer.scanned), done);
		totals.replaceChildren(...(answer.limits ?? []).map(total));
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
	every(1000, signal, () => Date.now() - at >= (done ? 5000 : 1000) && load());
}

function total(limit) {
	const used = Math.min(100, Math.max(0, limit.used_percent));
	const fill = h('span', { class: 'bar-fill' });
	fill.style.transform = `scaleX(${used / 100})`;
	const words = T.availableExact(exact(limit.available), exact(limit.capacity), '');
	const use = badge({ ...limit, debt: 0 });
	return h('div', { class: 'total', 'data-level': use.dataset.level, title: words },
		bdi(limit.name, 'limit-name'),
		h('strong', null, compact(limit.available), h('span', { class: 'muted' }, ` / ${compact(limit.capacity)}`)),
		h('span', { class: 'bar', role: 'meter', 'aria-label': limit.name, 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-valuenow': Math.floor(used), 'aria-valuetext': `${percent(used)} ${T.used}, ${words}` }, fill),
		use);
}

function defaultLimits(name, limits) {
	return [
		limits?.length ? h('ul', { class: 'chips' }, limits.map((l) => h('li', null, bdi(limitText(l))))) : empty(T.noDefaults),
		canChange() ? h('p', { class: 'actions' }, link('changes', { resource: name }, { class: 'button' }, T.changeDefaults)) : '',
	];
}
