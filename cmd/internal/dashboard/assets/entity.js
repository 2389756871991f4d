// One entity.

import { T } from './texts.js';
import { get } from './api.js';
import { auditCard } from './audit.js';
import { bdi, card, empty, entityLink, guard, h, link, pages } from './dom.js';
import { bucketTable } from './bucket.js';
import { dateTime } from './format.js';
import { levelTable, offNotes } from './levels.js';
import { canChange } from './state.js';
import { usagePanel } from './usage.js';

export async function show({ main, params, signal, heading, title }) {
	const id = params.get('id') ?? '';
	title(T.entityTitle(id));
	const box = h('div');
	const crumb = h('p.crumb', T.entity);
	const head = heading(bdi(id));
	const rest = h('div', h('p.loading', T.loading));
	main.append(crumb, head, box, rest);
	const load = async () => {
		const answer = await guard(box, () => get('api/entity', { id }, signal), load);
		rest.replaceChildren();
		if (!answer) return;
		if (answer.entity?.name) head.replaceChildren(bdi(answer.entity.name));
		crumb.replaceChildren(T.entity, lineage(answer));
		rest.append(...parts(id, answer, signal));
	};
	await load();
}

function lineage({ entity, ancestors }) {
	const byID = new Map((ancestors ?? []).map((a) => [a.entity, a]));
	const links = [];
	for (let at = byID.get(entity?.parent); at; at = byID.get(at.parent)) {
		byID.delete(at.entity);
		links.unshift(entityLink(at.entity, at.name), ' › ');
	}
	return links.length ? h('span', ': ', links) : '';
}

function parts(id, answer, signal) {
	const watching = new Set();
	const { rows } = answer;
	const resources = [...new Set([...answer.resources, ...rows.map((r) => r.resource)])].sort();
	return [
		facts(id, answer.entity),
		...offNotes(answer.disabled),
		actions(id, rows[0]?.resource, answer.disabled.some((s) => s.entity_id === id && !s.resource)),
		card(T.buckets, rows.length ? bucketTable(T.buckets, rows, { signal, watching }).element : empty(T.noBucketsOfEntity)),
		card(T.limitsByLevel, answer.levels.length ? levelTable(answer.levels, (l) => forced(answer, l)) : empty(T.noLevels)),
		card(T.usage, resources.length ? usagePanel(id, resources, rows[0]?.resource, signal) : empty(T.noUsage)),
		children(id, signal, watching),
		auditCard(id, signal),
	];
}

function forced(answer, level) {
	const found = answer.in_force.filter((f) => f.level === level.level && (!level.resource || f.resource === level.resource)).map((f) => f.resource);
	return found.length ? found : null;
}

function facts(id, entity) {
	const list = h('dl.facts-list');
	const add = (term, ...value) => list.append(h('div', h('dt', term), h('dd', ...value)));
	add(T.id, bdi(id, 'id'));
	if (!entity) {
		add(T.record, T.noRecord);
		return list;
	}
	add(T.parent, entity.parent ? entityLink(entity.parent) : T.none);
	if (entity.parent) add(T.cascade, entity.cascade ? T.cascadeYes : T.cascadeNo);
	add(T.created, dateTime(entity.created_at));
	for (const [key, value] of Object.entries(entity.metadata ?? {})) add(bdi(key), bdi(value));
	return list;
}

function actions(id, resource, off) {
	const action = off ? 'enable' : 'disable';
	return h('p.actions',
		link('explain', { entity: id, resource }, { class: 'button' }, T.explainThis),
		link('what-if', { entity: id, resource }, { class: 'button' }, T.whatIfThis),
		canChange() && [link('changes', { entity: id, resource }, { class: 'button' }, T.changeThis),
			link('changes', { entity: id, action }, { class: 'button' }, T.action(action))]);
}

function children(id, signal, watching) {
	const list = h('ul.children');
	let rows = null;
	const { box, more } = pages('api/children', { id, limit: 50 }, signal, (page, first) => {
		element.hidden = page && first && !page.children.length;
		if (!page) return;
		const used = new Set(page.rows.map((r) => r.entity));
		list.append(...page.children.filter((c) => !used.has(c.entity)).map((c) => h('li', null,
			entityLink(c.entity, c.name), ' ', h('span.muted', T.noBucketYet))));
		if (rows) rows.add(page.rows);
		else if (page.rows.length) {
			rows = bucketTable(T.childrenTitle, page.rows, { names: 'both', signal, watching });
			list.before(rows.element);
		}
	});
	const element = card(T.childrenTitle, box, list, more);
	element.hidden = true;
	return element;
}
