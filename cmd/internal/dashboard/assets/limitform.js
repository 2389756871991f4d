// Fields for names of the store and for limits.

import { T } from './texts.js';
import { get } from './api.js';
import { button, field, h, latest, textInput, unique } from './dom.js';
import { amountOf, amountText, duration, isMoney } from './format.js';

function suggesting(label, hint, attributes) {
	const list = h('datalist', { id: unique('list') });
	const put = (all) => list.replaceChildren(...all.slice(0, 50).map((v) => h('option', { value: v })));
	const input = textInput({ list: list.id, ...attributes });
	return { element: h('div', field(label, input, hint), list), input, put };
}

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

// limitsInForce asks for the limits that apply to exactly this scope, if they are known.
async function limitsInForce({ entity, resource }, signal) {
	if (!entity) return resource && (await get('api/resource', { name: resource }, signal)).defaults;
	const { in_force: forces, levels } = await get('api/entity', { id: entity }, signal);
	return (resource ? forces.find((f) => f.resource === resource) : levels.find((l) => l.level === 'entity_default'))?.limits;
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
		const asked = next();
		const limits = edited() || await limitsInForce(value(), asked).catch(() => null);
		if (!edited() && !asked.aborted) begin(limits || []);
	};
	entity.input.addEventListener('change', fill);
	resource.input.addEventListener('change', fill);
	fill();
	return { element: h('div.pair', entity.element, resource.element), value };
}

const cent = 10000;
const windows = ['hour', 'day', 'week', 'month', 'year'];

class Lines {
	constructor(title, addLabel, make) {
		this.make = make;
		this.edited = false;
		this.rows = h('div.lines', { oninput: () => { this.edited = true; } });
		this.element = h('fieldset', h('legend', title), this.rows, button(addLabel, () => this.add().querySelector('input').focus(), { class: 'quiet' }));
	}

	set(items) {
		const inside = this.rows.contains(document.activeElement);
		this.rows.replaceChildren();
		(items.length ? items : [undefined]).forEach((item) => this.add(item));
		if (inside) this.rows.querySelector('input').focus();
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
		const seconds = String(limit?.refill_period_seconds || 60);
		const all = [...new Set([...Object.keys(T.periods), seconds])].sort((a, b) => a - b);
		const name = nameInput(limit?.name);
		const refill = amountInput('refill', name, limit?.refill_amount || null, 1);
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
			field(T.name, name), field(T.capacity, amountInput('capacity', name, limit?.capacity, 1)), field(T.refill, refill), field(T.every, period), field(T.zone, zone),
			h('label.inline', h('input', { type: 'checkbox', name: 'shadow', checked: limit?.shadow }), ' ', T.shadow),
		];
	});
	lines.set([]);
	lines.begin = lines.set;
	lines.value = () => lines.values((get) => {
		const seconds = Number(get('period'));
		const name = get('name');
		return {
			name, capacity: amountOf(get('capacity'), name), shadow: get('shadow'),
			...(seconds ? { refill_amount: amountOf(get('refill'), name), refill_period_seconds: seconds } : { window: get('period'), zone: get('zone') }),
		};
	});
	return lines;
}

const nameInput = (value) => textInput({ name: 'name', value, required: true });

// amountInput returns a field for an amount of the limit whose name another field has.
function amountInput(name, limit, value, min) {
	const check = () => {
		const of = limit.value.trim();
		const n = amountOf(input.value.trim(), of);
		const dollars = isMoney(of);
		input.placeholder = dollars ? '$20' : '';
		input.inputMode = dollars ? 'text' : 'numeric';
		input.setCustomValidity(n >= min && Number.isSafeInteger(n) ? '' : dollars ? T.dollars(of, min) : T.wholeNumber(min));
	};
	const input = textInput({ name, value: amountText(value, limit.value), required: true, oninput: check });
	limit.addEventListener('input', check);
	check();
	return input;
}

export function amountLines(title, least) {
	const lines = new Lines(title, T.addAmount, ([name, amount = 1] = []) => {
		const input = nameInput(name);
		return [field(T.name, input), field(T.amount, amountInput('amount', input, amount, least))];
	});
	lines.begin = (limits) => lines.set(limits.map((l) => [l.name, isMoney(l.name) ? cent : 1]));
	lines.value = () => lines.values((get) => [get('name'), amountOf(get('amount'), get('name'))]);
	return lines;
}
