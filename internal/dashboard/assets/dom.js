// Elements, built without markup: every text becomes a text node.

const svgSpace = document.querySelector('svg').namespaceURI;
const properties = new Set(['value', 'checked', 'disabled', 'hidden', 'selected', 'required', 'open']);

function fill(element, attributes, children) {
	for (const [key, value] of Object.entries(attributes ?? {})) {
		if (value == null || value === false) continue;
		if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
		else if (properties.has(key)) element[key] = value;
		else element.setAttribute(key, value === true ? '' : value);
	}
	element.append(...children.flat(Infinity).filter((c) => c != null && c !== false));
	return element;
}

// h returns an HTML element.
export function h(tag, attributes, ...children) {
	return fill(document.createElement(tag), attributes, children);
}

// svg returns an SVG element.
export function svg(tag, attributes, ...children) {
	return fill(document.createElementNS(svgSpace, tag), attributes, children);
}

// bdi returns a name from the store, isolated from the direction of the text around it.
export function bdi(text, className, title = text) {
	return h('bdi', { class: className, title, dir: 'auto' }, text);
}

// sign returns a symbol beside words that say the same.
export function sign(symbol) {
	return h('span', { class: 'sign', 'aria-hidden': 'true' }, symbol);
}

// button returns a button.
export function button(label, onclick, attributes) {
	return h('button', { type: 'button', onclick, ...attributes }, label);
}

// card returns a part of a view with a title.
export function card(title, ...content) {
	return h('section', { class: 'card' }, h('h2', null, title), ...content);
}

// empty returns a sentence in place of what is not there.
export function empty(text) {
	return h('p', { class: 'empty' }, text);
}

// segments returns buttons to choose one of several named values.
export function segments(label, names, chosen, choose) {
	const group = h('div', { class: 'segments', role: 'group', 'aria-label': label }, Object.entries(names).map(([value, text]) => button(text, () => {
		for (const b of group.children) b.setAttribute('aria-pressed', String(b.dataset.value === value));
		choose(value);
	}, { 'data-value': value, 'aria-pressed': String(value === chosen) })));
	return group;
}

// textInput returns a field for a name of the store.
export function textInput(attributes) {
	return h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', maxlength: 256, dir: 'auto', ...attributes });
}

// numberInput returns a field for a whole number.
export function numberInput(name, value, min) {
	return h('input', { type: 'number', name, value: value ?? '', min, step: 1, required: true, inputmode: 'numeric' });
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

// setAttribute changes an attribute if it has another value.
export function setAttribute(element, name, value) {
	if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

const still = matchMedia('(prefers-reduced-motion: reduce)');

// flash marks an element as changed for a moment.
export function flash(element) {
	if (still.matches) return;
	const color = getComputedStyle(document.documentElement).getPropertyValue('--flash');
	element.animate([{ backgroundColor: color }, { backgroundColor: 'transparent' }], { duration: 900, easing: 'ease-out' });
}

// link returns a link to a view of the page.
export function link(view, params, attributes, ...children) {
	return h('a', { href: address(view, params), ...attributes }, ...children);
}

// address returns the fragment of a view.
export function address(view, params) {
	const given = Object.entries(params ?? {}).filter(([, v]) => v != null && v !== '');
	const query = new URLSearchParams(given).toString();
	return `#/${view}${query ? `?${query}` : ''}`;
}

// unique returns an ID for an element.
let count = 0;
export function unique(prefix) {
	count += 1;
	return `${prefix}-${count}`;
}

// field returns a labelled control.
export function field(label, control, hint) {
	control.id ||= unique('field');
	const note = hint && h('small', { id: `${control.id}-hint`, class: 'hint' }, hint);
	if (note) control.setAttribute('aria-describedby', note.id);
	return h('div', { class: 'field' }, h('label', { for: control.id }, label), control, note);
}

// table returns a table of rows, each a list of cells.
export function table(caption, columns, rows, className) {
	return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
		h('table', { class: className },
			h('caption', { class: 'hidden' }, caption),
			h('thead', null, h('tr', null, columns.map((c) => h('th', { scope: 'col', class: c.number && 'number' }, c.label ?? c)))),
			h('tbody', null, rows.map((cells) => h('tr', null, cells.map((cell, i) => h('td', { class: columns[i].number && 'number' }, cell)))))));
}

// every calls a function each period until the signal aborts, while the page is visible.
export function every(milliseconds, signal, call) {
	const timer = setInterval(() => document.hidden || call(), milliseconds);
	signal.addEventListener('abort', () => clearInterval(timer));
}
