// The usage of the last days, replayed against other limits.

import { T } from './texts.js';
import { asking, bdi, button, card, entityLink, field, h, number, segments, sign, table, warnings } from './dom.js';
import { compact, dateTime, exact, limitText } from './format.js';
import { limitLines, scopeFields } from './limitform.js';

const largest = 1 << 20;
const shownAtOnce = 200;

export function show({ main, params, signal, heading }) {
	const lines = limitLines();
	const scope = scopeFields(params, signal, { edited: () => lines.edited, begin: (limits) => lines.begin(limits) });
	const text = h('textarea', { name: 'manifest', rows: 12, spellcheck: 'false', class: 'id', required: true, placeholder: T.manifestHint });
	const file = h('input', { type: 'file', accept: '.yaml,.yml,.json' });
	file.addEventListener('change', async () => {
		const chosen = file.files[0];
		const fits = chosen && chosen.size <= largest;
		file.setCustomValidity(chosen && !fits ? T.tooLarge : '');
		file.reportValidity();
		if (fits) text.value = await chosen.text();
	});
	const forms = {
		scope: [scope.element, lines.element],
		manifest: [field(T.chooseFile, file), field(T.manifest, text)],
	};
	const days = h('input', { type: 'number', name: 'days', value: 7, min: 1, max: 366, required: true });
	let mode = 'scope';
	const body = h('div.form', forms.scope);
	const modes = segments(T.proposal, T.modes, mode, (next) => {
		mode = next;
		body.replaceChildren(...forms[mode]);
	});
	const { form, box, result, submit } = asking(signal, T.whatIfButton, 'api/what-if', () => ({
		...(mode === 'manifest' ? { manifest: text.value } : { ...scope.value(), limits: lines.value() }), days: Number(days.value),
	}), reportParts);
	form.append(modes, body, h('div.submit', field(T.days, days), submit));
	main.append(heading(T.whatIf), h('p.lead', T.whatIfLead),
		h('p.note', h('strong', T.lowerBound), ' ', T.lowerBoundWhy), form, box, result);
}

function reportParts(report) {
	const rows = report.rows ?? [];
	const good = !report.entities_over;
	const same = report.levels === 0;
	const head = h('section', { class: `card verdict ${good ? 'fits' : 'waits'}`, 'data-verdict': good ? 'fits' : 'waits' },
		h('h2', sign(good ? '✓' : '✕'), ' ', same ? T.whatIfSame : good ? T.whatIfGood(exact(report.entities)) : T.whatIfBad(exact(report.entities_over), exact(report.entities))),
		!same && h('p', T.whatIfSaw(exact(report.snapshots), report.first && dateTime(report.first), report.last && dateTime(report.last))),
		!report.complete && h('p', h('strong', T.whatIfStopped)),
		report.unseen?.length ? h('p', T.whatIfUnseen, report.unseen.map((n, i) => [i ? ', ' : ' ', bdi(n)])) : null,
		warnings(report.warnings));
	if (!rows.length) return [head];
	const body = h('div');
	const columns = [T.entity, T.resource, T.nowColumn, T.proposed, number(T.hoursOver), number(T.tokensOver), number(T.callsOver), T.worstHour];
	const draw = (count) => {
		more.hidden = count >= rows.length;
		body.replaceChildren(table(T.report, columns, rows.slice(0, count).map(reportRow)));
	};
	const more = button(T.showAll(exact(rows.length)), () => draw(rows.length), { class: 'more' });
	draw(Math.min(shownAtOnce, rows.length));
	return [head, card(T.report, body, more, report.more ? h('p.muted', T.leftOut(exact(report.more))) : null)];
}

function reportRow(r) {
	const bad = r.tokens_over > r.tokens_over_now;
	const least = (n, name) => h('span', { title: exact(n, name) }, T.atLeast(compact(n, name)));
	return [
		entityLink(r.entity_id), bdi(r.resource),
		r.current ? bdi(limitText(r.current), 'text') : h('span', bdi(r.limit), ': ', T.none),
		r.proposed ? bdi(limitText(r.proposed), 'text') : h('span.use.red', sign('✕'), T.goes),
		T.hoursOf(exact(r.hours_over), exact(r.hours_used)),
		h('span', { class: bad ? 'use red' : 'muted' }, bad ? sign('▲') : null, least(r.tokens_over, r.limit)),
		r.calls_over == null ? '–' : least(r.calls_over),
		r.worst ? h('span.nowrap', { title: T.worstTitle(exact(r.worst_used, r.limit), exact(r.worst_over, r.limit)) }, dateTime(r.worst).slice(0, 16)) : '–',
	];
}
