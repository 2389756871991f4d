// The audit trail of an entity, a resource or the system.

import { T } from './texts.js';
import { bdi, card, empty, h, pages, table } from './dom.js';
import { dateTime } from './format.js';

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
	const details = Object.keys(event.details ?? {}).length ? JSON.stringify(event.details) : '';
	return [
		h('time', { datetime: event.timestamp, class: 'nowrap' }, dateTime(event.timestamp)),
		T.action(event.action),
		event.principal ? bdi(event.principal) : '–',
		event.resource && event.resource !== '_default_' ? bdi(event.resource) : '–',
		bdi(details, 'id'),
	];
}
