// What a request would meet, limit by limit, and when it would fit.

import { T } from './texts.js';
import { address, asking, bdi, card, entityLink, h, number, sign, table } from './dom.js';
import { countdown, exact } from './format.js';
import { levelName, levelTable } from './levels.js';
import { amountLines, scopeFields } from './limitform.js';

export function show({ main, params, signal, heading }) {
	const lines = amountLines(T.amounts, 0);
	const given = parseAmounts(params.get('consume'));
	lines.set(given);
	lines.edited = given.length > 0;
	const scope = scopeFields(params, signal, { required: true, edited: () => lines.edited, begin: lines.begin });
	const { form, box, result, submit, ask } = asking(signal, T.explain, 'api/explain', () => {
		const amounts = lines.value();
		history.replaceState(history.state, '', address('explain', { ...scope.value(), consume: amounts.map((a) => a.join(':')).join(',') }));
		return { ...scope.value(), consume: Object.fromEntries(amounts) };
	}, verdict);
	form.append(scope.element, lines.element, h('div.submit', submit));
	main.append(heading(T.explain), h('p.lead', T.explainLead), form, box, result);
	if (given.length && form.checkValidity()) ask();
}

function parseAmounts(text) {
	return (text ?? '').split(',').map((part) => {
		const at = part.lastIndexOf(':');
		return [part.slice(0, at), part.slice(at + 1)];
	}).filter(([name]) => name);
}

function verdict(answer, signal, ask) {
	const kind = answer.disabled ? 'disabled' : answer.admitted ? 'fits' : answer.never_fits ? 'never' : 'waits';
	const left = h('span.countdown');
	const line = h('p.verdict-line', sign(kind === 'fits' ? '✓' : '✕'), ' ', T.verdicts[kind], kind === 'waits' && [` ${T.fitsIn} `, left]);
	if (kind === 'waits') {
		countdown(left, answer.retry_after_seconds, signal, () => {
			line.replaceChildren(sign('✓'), ' ', T.fitsNow);
			ask();
		});
	}
	return [
		h('section', { class: `card verdict ${kind}`, 'data-verdict': kind }, h('h2.hidden', T.verdict), line,
			h('ul.reasons', answer.reasons.map((r) => h('li', bdi(r))))),
		card(T.byLimit, limits(answer, signal)),
		card(T.limitsByLevel, levelTable(answer.levels, (l) => (l.in_force ? [] : null))),
	];
}

function limits(answer, signal) {
	const asked = (l, shown) => (Object.hasOwn(answer.requested, l.limit_name) ? shown : '–');
	return table(T.byLimit, [T.entity, T.limit, number(T.requested), number(T.available), number(T.capacity), T.source, T.verdict], answer.limits.map((l) => [
		entityLink(l.entity_id), bdi((l.shadow ? '◌ ' : '') + l.limit_name), asked(l, exact(l.requested, l.limit_name)), exact(l.available, l.limit_name), exact(l.capacity, l.limit_name), levelName(l.source), asked(l, status(l, signal)),
	]));
}

function status(l, signal) {
	if (l.never_fits) return h('span.use.red', sign('✕'), T.neverFits);
	if (l.would_refuse) return h('span.use.yellow', sign('▲'), T.spared);
	if (!l.exceeded) return h('span.use.green', sign('✓'), T.fits);
	const left = h('span.countdown');
	const element = h('span.use.red', sign('✕'), `${T.fitsIn} `, left);
	countdown(left, l.retry_after_seconds, signal, () => {
		element.className = 'use green';
		element.replaceChildren(sign('✓'), T.fitsNow);
	});
	return element;
}
