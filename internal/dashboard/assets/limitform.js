// Fields for names of the store and for limits.

import { T } from './texts.js';
import { get } from './api.js';
import { button, field, h, latest, numberInput, textInput, unique } from './dom.js';
import { duration } from './format.js';
import { limitsInForce } from './levels.js';

// suggesting returns a labelled text field with a list of suggestions.
function suggesting(label, hint, attributes) {
	const list = h('datalist', { id: unique('list') });
	const put = (all) => list.replaceChildren(...all.slice(0, 50).map((v) => h('option', { value: v })));
	const input = textInput({ list: list.id, ...attributes });
	return { element: h('div', field(label, input, hint), list), input, put };
}

// entityField returns a field for an ID, which suggests entities while one types.
export function entityField(label, value, { required, hint, signal }) {
	const made = suggesting(label, hint, { value, required, name: 'entity' });
	const next = latest(signal);
	let timer = 0;
	made.input.addEventListener('input', () => {
		clearTimeout(timer);
		const search = made.input.value.trim();
		if (!search) return;
		timer = setTimeout(() => get('api/overview', { limit: 20, search }, next())
			.then((page) => made.put([...new Set(page.rows.map((r) => r.entity))]), () => {}), 250);
	});
	return made;
}

// scopeFields returns fields for an entity and a resource, and calls begin with the limits in
// force for them, until the user edits what is below.
export function scopeFields(params, signal, { required, begin, edited }) {
	const hint = (text) => (required ? null : text);
	const entity = entityField(T.entity, params.get('entity') ?? '', { required, hint: hint(T.emptyForAll), signal });
	const resource = suggesting(T.resource, hint(T.emptyForAllResources), { value: params.get('resource') ?? '', required, name: 'resource' });
	get('api/resources', null, signal).then((answer) => resource.put(answer.resources ?? []), () => {});
	const value = () => ({ entity: entity.input.value.trim(), resource: resource.input.value.trim() });
	const next = latest(signal);
	const fill = async () => {
		const at = value();
		if (edited() || !(at.entity || at.resource)) return;
		const limits = await limitsInForce(at.entity, at.resource, next());
		if (limits.length && !edited()) begin(limits);
	};
	entity.input.addEventListener('change', fill);
	resource.input.addEventListener('change', fill);
	fill();
	return { element: h('div.pair', entity.element, resource.element), value };
}

const periods = [1, 60, 3600, 86400];

// Lines edits a list, one line for each item.
export class Lines {
	constructor(title, addLabel, make) {
		this.make = make;
		this.edited = false;
		this.rows = h('div.lines', { oninput: () => { this.edited = true; } });
		this.element = h('fieldset', h('legend', title), this.rows, button(addLabel, () => this.add().querySelector('input').focus(), { class: 'quiet' }));
	}

	set(items) {
		this.rows.replaceChildren();
		items.forEach((item) => this.add(item));
	}

	add(item) {
		const row = h('div.line', this.make(item), button('✕', () => {
			this.edited = true;
			row.remove();
		}, { class: 'quiet remove', 'aria-label': T.removeLine, title: T.removeLine }));
		this.rows.append(row);
		return row;
	}

	values(read) {
		return [...this.rows.children].map((row) => read((name) => row.querySelector(`[name=${name}]`).value.trim()));
	}
}

export function limitLines() {
	const lines = new Lines(T.limits, T.addLimit, (limit) => {
		const seconds = limit?.refill_period_seconds ?? 60;
		const all = [...new Set([...periods, seconds])].sort((a, b) => a - b);
		return [
			field(T.name, textInput({ name: 'name', value: limit?.name ?? '', required: true })),
			field(T.capacity, numberInput('capacity', limit?.capacity, 1)),
			field(T.refill, numberInput('refill', limit?.refill_amount, 1)),
			field(T.every, h('select', { name: 'period' }, all.map((p) => h('option', { value: p, selected: p === seconds }, T.periods[p] ?? duration(p))))),
		];
	});
	lines.set([null]);
	lines.value = () => lines.values((get) => ({ name: get('name'), capacity: Number(get('capacity')), refill_amount: Number(get('refill')), refill_period_seconds: Number(get('period')) }));
	return lines;
}
