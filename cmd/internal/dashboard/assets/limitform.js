// Fields for names of the store and for limits.

import { T } from './texts.js';
import { get } from './api.js';
import { button, field, h, latest, numberInput, textInput, unique } from './dom.js';
import { duration } from './format.js';

// suggesting returns a labelled text field with a list of suggestions.
function suggesting(label, hint, attributes) {
	const list = h('datalist', { id: unique('list') });
	const put = (all) => list.replaceChildren(...all.slice(0, 50).map((v) => h('option', { value: v })));
	const input = textInput({ list: list.id, ...attributes });
	return { element: h('div', field(label, input, hint), list), input, put };
}

// entityField returns a field for an ID that suggests entities.
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

// limitsInForce asks for the limits that apply to a scope.
async function limitsInForce(entity, resource, signal) {
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
const windows = ['hour', 'day', 'week', 'month', 'year'];

// Lines edits a list, one line for each item.
class Lines {
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
		return [...this.rows.children].map((row) => read((name) => {
			const input = row.querySelector(`[name=${name}]`);
			return input.type === 'checkbox' ? input.checked : input.value.trim();
		}));
	}
}

export function limitLines() {
	const lines = new Lines(T.limits, T.addLimit, (limit) => {
		const seconds = limit?.refill_period_seconds || 60;
		const all = [...new Set([...periods, seconds])].sort((a, b) => a - b);
		const refill = numberInput('refill', limit?.refill_amount || null, 1);
		const zone = textInput({ name: 'zone', value: limit?.zone ?? '', placeholder: 'UTC' });
		const option = (value, text) => h('option', { value, selected: value === (limit?.window ?? seconds) }, text);
		const period = h('select', { name: 'period', onchange: () => toggle() },
			all.map((p) => option(p, T.periods[p] ?? duration(p))), windows.map((w) => option(w, T.calendar(w))));
		// A quota has a zone in place of a refill.
		const toggle = () => {
			refill.disabled = windows.includes(period.value);
			zone.disabled = !refill.disabled;
		};
		toggle();
		return [
			nameField(limit?.name), field(T.capacity, numberInput('capacity', limit?.capacity, 1)), field(T.refill, refill), field(T.every, period), field(T.zone, zone),
			h('label.inline', h('input', { type: 'checkbox', name: 'shadow', checked: limit?.shadow }), ' ', T.shadow),
		];
	});
	lines.set([null]);
	lines.value = () => lines.values((get) => {
		const seconds = Number(get('period'));
		return {
			name: get('name'), capacity: Number(get('capacity')), shadow: get('shadow'),
			...(seconds ? { refill_amount: Number(get('refill')), refill_period_seconds: seconds } : { window: get('period'), zone: get('zone') }),
		};
	});
	return lines;
}

function nameField(value = '') {
	return field(T.name, textInput({ name: 'name', value, required: true }));
}

// amountLines edits the amounts of limits.
export function amountLines(title, least) {
	const lines = new Lines(title, T.addAmount, ([name, amount] = ['', 1]) => [nameField(name), field(T.amount, numberInput('amount', amount, least))]);
	lines.begin = (limits) => lines.set(limits.map((l) => [l.name, 1]));
	lines.value = () => lines.values((get) => [get('name'), Number(get('amount'))]);
	return lines;
}
