// Limits and the levels that store them.

import { T } from './texts.js';
import { get } from './api.js';
import { bdi, h, sign, table } from './dom.js';
import { limitText } from './format.js';

export function limitList(limits) {
	if (!limits?.length) return h('span.muted', T.noLimits);
	return h('ul', limits.map((l) => h('li', bdi(limitText(l)))));
}

export function levelName(level) {
	return T.sources[level] ?? level ?? '–';
}

// levelTable shows levels, each with its limits and the resources for which they are in force.
export function levelTable(levels, inForce) {
	return table(T.limitsByLevel, [T.level, T.entity, T.resource, T.limits, T.inForce], levels.map((l) => {
		const resources = inForce(l);
		const entity = l.entity ?? l.entity_id;
		return [
			levelName(l.level), entity ? bdi(entity) : T.all, l.resource && l.resource !== '_default_' ? bdi(l.resource) : T.all, limitList(l.limits),
			resources ? h('span.force', sign('✓'), ' ', T.inForce, resources.map((r, i) => [i ? ', ' : ` ${T.inForceFor} `, bdi(r)])) : '–',
		];
	}));
}

// limitsInForce asks for the limits that apply to a scope, to begin a form with.
export async function limitsInForce(entity, resource, signal) {
	try {
		if (entity) {
			const found = (await get('api/entity', { id: entity }, signal)).in_force?.find((f) => f.resource === resource || !resource);
			if (found?.limits?.length) return found.limits;
		}
		return (resource && (await get('api/resource', { name: resource }, signal)).defaults) || [];
	} catch {
		return [];
	}
}
