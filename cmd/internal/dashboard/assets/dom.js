// Elements, built without markup: every text becomes a text node.

import { T } from './texts.js';
import { get, post, query } from './api.js';

const properties = new Set(['value', 'checked', 'disabled', 'hidden', 'selected', 'required', 'open']);

const isAttributes = (value) => value != null && Object.getPrototypeOf(value) === Object.prototype;

function fill(space, tag, parts) {
	const [name, ...classes] = tag.split('.');
	const element = document.createElementNS(space, name);
	if (classes.length) element.setAttribute('class', classes.join(' '));
	const attributes = isAttributes(parts[0]) ? parts[0] : {};
	for (const [key, value] of Object.entries(attributes)) {
		if (value == null || value === false) continue;
		if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
		else if (properties.has(key)) element[key] = value;
		else element.setAttribute(key, value === true ? '' : value);
	}
	element.append(...parts.flat(Infinity).filter((p) => p != null && p !== false && p !== attributes));
	return element;
}

// h returns an HTML element. The tag may name classes, as in 'div.card'; attributes are
// optional, and texts, elements and lists of them follow.
export function h(tag, ...parts) {
	return fill(document.documentElement.namespaceURI, tag, parts);
}

export function svg(tag, ...parts) {
	return fill('http://www.w3.org/2000/svg', tag, parts);
}

// bdi returns a name, isolated from the direction of the text around it.
export function bdi(text, className, title = text) {
	return h('bdi', { class: className, title, dir: 'auto' }, text);
}

export function sign(symbol) {
	return h('span.sign', { 'aria-hidden': 'true' }, symbol);
}

export function button(label, onclick, attributes) {
	return h('button', { type: 'button', onclick, ...attributes }, label);
}

export function submitButton(label) {
	return h('button', { type: 'submit', class: 'primary' }, label);
}

export function card(title, ...content) {
	return h('section.card', h('h2', title), ...content);
}

export function warnings(texts) {
	return h('ul.reasons.warnings', texts.map((w) => h('li', sign('▲'), ' ', bdi(w))));
}

export function empty(text) {
	return h('p.empty', text);
}

export function segments(label, names, chosen, choose) {
	const group = h('div.segments', { role: 'group', 'aria-label': label }, Object.entries(names).map(([value, text]) => button(text, () => {
		for (const b of group.children) b.setAttribute('aria-pressed', String(b.dataset.value === value));
		choose(value);
	}, { 'data-value': value, 'aria-pressed': String(value === chosen) })));
	return group;
}

export function textInput(attributes) {
	return h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', maxlength: 256, dir: 'auto', ...attributes });
}

// latest returns a function that makes a signal and aborts the one before.
export function latest(signal) {
	let running = null;
	return () => {
		running?.abort();
		running = new AbortController();
		return AbortSignal.any([signal, running.signal]);
	};
}

// setText changes the text of an element and reports whether it was another one.
export function setText(element, text) {
	if (element.textContent === text) return false;
	element.textContent = text;
	return true;
}

export function setAttribute(element, name, value) {
	if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

const still = matchMedia('(prefers-reduced-motion: reduce)');

export function flash(element) {
	if (still.matches) return;
	const color = getComputedStyle(document.documentElement).getPropertyValue('--flash');
	element.animate([{ backgroundColor: color }, { backgroundColor: 'transparent' }], { duration: 900, easing: 'ease-out' });
}

export function link(view, params, ...parts) {
	const made = h('a', ...parts);
	made.href = address(view, params);
	return made;
}

export function entityLink(id, name, attributes = {}) {
	return link('entity', { id }, attributes, bdi(name || id, '', id));
}

export function resourceLink(name, attributes = {}) {
	return link('resource', { name }, attributes, bdi(name));
}

export function address(view, params) {
	return query(`#/${view}`, params);
}

let count = 0;
export function unique(prefix) {
	count += 1;
	return `${prefix}-${count}`;
}

export function field(label, control, hint) {
	control.id ||= unique('field');
	const note = hint && h('small', { id: `${control.id}-hint`, class: 'hint' }, hint);
	if (note) control.setAttribute('aria-describedby', note.id);
	return h('div.field', h('label', { for: control.id }, label), control, note);
}

export const number = (label) => ({ label, number: true });

export function table(caption, columns, rows) {
	return h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': caption },
		h('table',
			h('caption.hidden', caption),
			h('thead', h('tr', columns.map((c) => h('th', { scope: 'col', class: c.number && 'number' }, c.label ?? c)))),
			h('tbody', rows.map((cells) => h('tr', cells.map((cell, i) => h('td', { class: columns[i].number && 'number' }, cell)))))));
}

// every calls a function each period until the signal aborts, while the page is visible.
export function every(milliseconds, signal, call) {
	const timer = setInterval(() => document.hidden || call(), milliseconds);
	signal.addEventListener('abort', () => clearInterval(timer));
}

export function problemBox(err, retry) {
	return h('div.problem', { role: 'alert' },
		h('div', h('strong', err.title || T.wentWrong), err.message && err.message !== err.title && h('p', { dir: 'auto' }, err.message)),
		retry && button(T.again, retry));
}

// guard runs a request of a view and shows its error in a box.
export async function guard(box, work, retry) {
	try {
		box.replaceChildren();
		return await work();
	} catch (err) {
		if (err.name !== 'AbortError') box.replaceChildren(problemBox(err, retry));
		return undefined;
	}
}

// asking returns a form that posts a request, and places for error and answer.
export function asking(signal, label, path, request, answered) {
	const box = h('div');
	const result = h('div', { 'aria-live': 'polite' });
	const submit = submitButton(label);
	const next = latest(signal);
	const ask = async () => {
		const inner = next();
		submit.disabled = true;
		const answer = await guard(box, () => post(path, request(), inner), ask);
		if (inner.aborted) return;
		submit.disabled = false;
		result.replaceChildren(...(answer ? answered(answer, inner, ask) : []));
	};
	// forget drops an answer that no longer fits the form.
	const forget = () => {
		next();
		submit.disabled = false;
		result.replaceChildren();
	};
	return { form: h('form.card.form', { onsubmit: (e) => { e.preventDefault(); ask(); } }), box, result, submit, ask, forget };
}

export function pages(path, params, signal, add) {
	const box = h('div');
	let after = '';
	const load = async () => {
		const page = await guard(box, () => get(path, { ...params, after }, signal), load);
		add(page, !after);
		if (!page) return;
		after = page.next;
		more.hidden = !after;
	};
	const more = button(T.showMore, load, { class: 'more', hidden: true });
	load();
	return { box, more };
}
