// The audit trail of an entity, a resource or the system.

import { T } from './texts.js';
import { get } from './api.js';
import { bdi, button, card, empty, guard, h, table } from './dom.js';
import { dateTime } from './format.js';

export function auditCard(subject, signal) {
	const box = h('div');
	const body = h('div');
	const more = button(T.showMore, () => load(), { class: 'more', hidden: true });
	const events = [];
	let after = '';
	const load = async () => {
		const page = await guard(box, () => get('api/audit', { entity: subject, after, limit: 20 }, signal), load);
		if (!page) return;
		after = page.next;
		more.hidden = !after;
		events.push(...page.events);
		body.replaceChildren(events.length ? table(T.audit, [T.time, T.change, T.principal, T.resource, T.details], events.map(auditRow)) : empty(T.noAudit));
	};
	load();
	return card(T.audit, box, body, more);
}

function auditRow(event) {
	const details = Object.keys(event.details ?? {}).length ? JSON.stringify(event.details) : '';
	return [
		h('time', { datetime: event.timestamp, class: 'nowrap' }, dateTime(event.timestamp)),
		T.actions[event.action] ?? event.action,
		event.principal ? bdi(event.principal) : '–',
		event.resource && event.resource !== '_default_' ? bdi(event.resource) : '–',
		bdi(details, 'id'),
	];
}
