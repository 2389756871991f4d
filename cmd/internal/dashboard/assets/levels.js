// Limits and the levels that store them.

import { T } from './texts.js';
import { bdi, h, sign, table } from './dom.js';
import { dateTime, limitText } from './format.js';

export function limitList(limits) {
	if (!limits?.length) return h('span.muted', T.noLimits);
	return h('ul', limits.map((l) => h('li', bdi(limitText(l)))));
}

export function levelName(level) {
	return T.sources[level] ?? level ?? '–';
}

// offText says which level is off, since when and why.
export function offText(s) {
	return T.off([levelName(s.level), s.entity_id, s.resource].filter(Boolean).join(' · '), dateTime(s.since), s.reason);
}

export function offNotes(all) {
	return all.map((s) => h('p.note.danger', sign('⊘'), ' ', bdi(offText(s))));
}

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
