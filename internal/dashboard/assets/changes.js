// Changes of limits and entities, each with a preview before it happens.

import { T } from './texts.js';
import { post } from './api.js';
import { bdi, button, card, entityLink, field, guard, h, latest, resourceLink, sign, textInput } from './dom.js';
import { exact, limitText } from './format.js';
import { limitList } from './levels.js';
import { entityField, limitLines, scopeFields } from './limitform.js';
import { canChange, state } from './state.js';

export function show({ main, params, signal, heading }) {
	main.append(heading(T.changes));
	if (!canChange()) {
		main.append(h('p.note', state.info.role === 'admin' ? T.needsWrite : T.needsAdmin));
		return;
	}
	const box = h('div');
	const result = h('div', { 'aria-live': 'polite' });
	const form = h('form.card.form', { onsubmit: (e) => { e.preventDefault(); preview(); }, oninput: () => forget() });
	const action = h('select', { name: 'action', onchange: () => build() },
		Object.entries(T.changeActions).map(([value, text]) => h('option', { value, selected: params.get('action') === value }, text)));
	const next = latest(signal);
	let fields = null;
	// forget drops a preview that no longer shows what the form says.
	const forget = () => {
		next();
		result.replaceChildren();
	};
	const build = () => {
		fields = action.value === 'create_entity' ? entityForm(signal) : limitsForm(params, signal, action.value === 'set_limits', forget);
		form.replaceChildren(field(T.change, action), ...fields.elements, h('div.submit', h('button', { type: 'submit', class: 'primary' }, T.preview)));
		box.replaceChildren();
		forget();
	};
	const preview = async () => {
		const change = { action: action.value, ...fields.value() };
		forget();
		const answer = await guard(box, () => post('api/preview', change, next()), preview);
		if (answer) result.replaceChildren(previewCard(change, answer, (b) => apply(change, b)));
	};
	const apply = async (change, confirm) => {
		confirm.disabled = true;
		const answer = await guard(box, () => post('api/change', change, signal));
		confirm.disabled = false;
		if (answer === undefined) return;
		const subject = change.entity ? entityLink(change.entity) : change.resource ? resourceLink(change.resource) : null;
		result.replaceChildren(h('p.note.done', { tabindex: -1 }, sign('✓'), ' ', T.changed[change.action], ' ', subject));
		result.firstChild.focus();
	};
	main.append(h('p.lead', T.changesLead), form, box, result);
	build();
}

function limitsForm(params, signal, withLimits, changed) {
	const lines = withLimits ? limitLines() : null;
	const begin = (limits) => {
		lines.set(limits);
		changed();
	};
	const scope = scopeFields(params, signal, { edited: () => !lines || lines.edited, begin });
	return {
		elements: lines ? [scope.element, lines.element] : [scope.element],
		value: () => ({ ...scope.value(), ...(lines && { limits: lines.value() }) }),
	};
}

function entityForm(signal) {
	const id = textInput({ name: 'id', required: true });
	const name = textInput({ name: 'name' });
	const parent = entityField(T.parent, '', { hint: T.optional, signal });
	const cascade = h('input', { type: 'checkbox', name: 'cascade' });
	const metadata = h('textarea', { name: 'metadata', rows: 3, spellcheck: 'false', class: 'id', placeholder: T.metadataExample });
	return {
		elements: [
			h('div.pair', field(T.id, id), field(T.displayName, name, T.optional)), parent.element,
			h('label.inline', cascade, ' ', T.cascadeLabel), field(T.metadata, metadata, T.metadataHint),
		],
		value: () => ({ entity: id.value.trim(), name: name.value.trim(), parent: parent.input.value.trim(), cascade: cascade.checked, metadata: pairs(metadata.value) }),
	};
}

function pairs(text) {
	return Object.fromEntries(text.split('\n').map((l) => l.trim()).filter(Boolean).map((l) => {
		const at = l.indexOf('=');
		return at < 0 ? [l, ''] : [l.slice(0, at).trim(), l.slice(at + 1).trim()];
	}));
}

function previewCard(change, answer, confirm) {
	const side = (title, limits) => h('div.side', h('h3', title), limitList(limits));
	const effect = change.action === 'create_entity' ? [] : [
		h('div.compare', side(T.before, answer.before), sign('→'), side(T.after, answer.after)),
		h('p', T.affects(exact(answer.affects ?? 0), exact(answer.scanned ?? 0), answer.done)),
		h('ul.reasons', (answer.examples ?? []).map(example)),
	];
	return card(T.previewTitle, ...effect,
		h('ul.reasons.warnings', (answer.warnings ?? []).map((w) => h('li', sign('▲'), ' ', bdi(w)))),
		button([T.changeActions[change.action], ` ${T.asPrincipal} `, h('bdi', { dir: 'auto' }, answer.principal || state.info.principal || T.ownIdentity)],
			(e) => confirm(e.currentTarget), { class: `confirm ${change.action === 'delete_limits' ? 'danger' : 'primary'}` }));
}

function example(e) {
	const text = (limits) => (limits?.length ? limits.map(limitText).join('; ') : T.noLimits);
	return h('li', bdi(e.entity), ' · ', bdi(e.resource), ': ', bdi(text(e.from), 'muted'), ' → ', bdi(text(e.to)));
}
