// Changes of limits and entities, each with a preview before it happens.

import { T } from './texts.js';
import { post } from './api.js';
import { asking, bdi, button, card, entityLink, field, guard, h, resourceLink, sign, textInput, warnings } from './dom.js';
import { exact, limitText } from './format.js';
import { limitList } from './levels.js';
import { amountLines, entityField, limitLines, scopeFields } from './limitform.js';
import { canChange, state } from './state.js';

const actions = ['set_limits', 'delete_limits', 'create_entity', 'disable', 'enable', 'reset', 'top_up'];

export function show({ main, params, signal, heading }) {
	main.append(heading(T.changes));
	if (!canChange()) {
		main.append(h('p.note', state.info.role === 'admin' ? T.needsWrite : T.needsAdmin));
		return;
	}
	let fields = null;
	let change = null;
	const { form, box, result, submit, forget } = asking(signal, T.preview, 'api/preview', () => {
		change = { action: action.value, ...fields.value() };
		if (/able$/.test(change.action) && !change.entity && !change.resource) change.all = true;
		return change;
	}, (answer) => [previewCard(change, answer, (b) => apply({ ...change, id: answer.id }, b))]);
	form.addEventListener('input', forget);
	const action = h('select', { name: 'action', onchange: () => build() },
		actions.map((value) => h('option', { value, selected: params.get('action') === value }, T.action(value))));
	const build = () => {
		fields = action.value === 'create_entity' ? entityForm(signal) : scopeForm(params, signal, action.value, forget);
		form.replaceChildren(field(T.change, action), ...fields.elements, h('div.submit', submit));
		box.replaceChildren();
		forget();
	};
	const apply = async (made, confirm) => {
		confirm.disabled = true;
		const answer = await guard(box, () => post('api/change', made, signal));
		confirm.disabled = false;
		if (answer === undefined) return;
		const subject = made.entity ? entityLink(made.entity) : made.resource ? resourceLink(made.resource) : null;
		result.replaceChildren(h('p.note.done', { tabindex: -1 }, sign('✓'), ' ', `${T.action(made.action)}: ${answer.repeated ? T.repeated : T.done}. `, subject));
		result.firstChild.focus();
	};
	main.append(h('p.lead', T.changesLead), form, box, result);
	build();
}

function scopeForm(params, signal, action, changed) {
	const limits = action === 'set_limits' && limitLines();
	const amounts = action === 'top_up' && amountLines(T.amount, 1);
	const reason = action === 'disable' && textInput({ name: 'reason', maxlength: 1000 });
	const lines = limits || amounts;
	const begin = (found) => {
		lines.begin(found);
		changed();
	};
	const scope = scopeFields(params, signal, { required: Boolean(amounts) || action === 'reset', edited: () => !lines || lines.edited, begin });
	return {
		elements: [scope.element, lines && lines.element, reason && field(T.reason, reason, T.optional)].filter(Boolean),
		value: () => ({
			...scope.value(), ...(limits && { limits: limits.value() }), ...(amounts && { amounts: Object.fromEntries(amounts.value()) }), ...(reason && { reason: reason.value.trim() }),
		}),
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
	const effect = !change.action.endsWith('_limits') ? [] : [
		h('div.compare', side(T.before, answer.before), sign('→'), side(T.after, answer.after)),
		h('p', T.affects(exact(answer.affects), exact(answer.scanned), answer.done)),
		h('ul.reasons', answer.examples.map(example)),
	];
	return card(T.previewTitle, ...effect, h('ul.reasons', answer.notes.map((n) => h('li', bdi(n)))),
		warnings(answer.warnings),
		button([T.action(change.action), ` ${T.asPrincipal} `, bdi(answer.principal || state.info.principal || T.ownIdentity)],
			(e) => confirm(e.currentTarget), { class: `confirm ${/^d/.test(change.action) ? 'danger' : 'primary'}` }));
}

function example(e) {
	const text = (limits) => (limits?.length ? limits.map(limitText).join('; ') : T.noLimits);
	return h('li', bdi(e.entity), ' · ', bdi(e.resource), ': ', bdi(text(e.from), 'muted'), ' → ', bdi(text(e.to)));
}
