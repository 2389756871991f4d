// The audit trail of an entity, a resource or the system.

import { T } from './texts.js';
import { bdi, card, empty, h, pages, table } from './dom.js';
import { dateTime, exact, limitText } from './format.js';

export function auditCard(subject, signal) {
	const body = h('div');
	const events = [];
	const { box, more } = pages('api/audit', { entity: subject, limit: 20 }, signal, (page) => {
		if (!page) return;
		events.push(...page.events);
		body.replaceChildren(events.length ? table(T.audit, [T.time, T.change, T.principal, T.resource, T.details], events.map(auditRow)) : empty(T.noAudit));
	});
	return card(T.audit, box, body, more);
}

function auditRow(event) {
	return [
		h('time', { datetime: event.timestamp, class: 'nowrap' }, dateTime(event.timestamp)),
		T.action(event.action),
		event.principal ? bdi(event.principal) : '–',
		event.resource && event.resource !== '_default_' ? bdi(event.resource) : '–',
		bdi(details(event), 'text'),
	];
}

// details returns what an event says in words: {"limits":["rpm"],"cascade":true} is "limits rpm · cascade yes".
function details(event) {
	return entries(event.details ?? {}).map(([name, v]) => `${name.replaceAll('_', ' ')} ${words(v, name)}`).join(' · ');
}

// words returns a value. A number may be an amount of the limit that names it.
function words(value, name) {
	if (Array.isArray(value)) return value.map((v) => words(v, '')).join(', ');
	if (value === true || value === false) return value ? T.yes : T.no;
	if (typeof value === 'number') return exact(value, name);
	if (typeof value !== 'object') return String(value);
	if (value.capacity != null) return limitText(value);
	return entries(value).map(([key, v]) => `${key} ${words(v, key)}`).join(', ');
}

const entries = (value) => Object.entries(value).filter(([name, v]) => v != null && words(v, name) !== '');
