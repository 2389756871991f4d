// What went wrong, as a box in the page.

import { T } from './texts.js';
import { h } from './dom.js';

// problemBox shows an error, with a button if something can be done again.
export function problemBox(err, retry) {
	return h('div', { class: 'problem', role: 'alert' },
		h('div', null, h('strong', null, err.title || T.wentWrong), err.message && err.message !== err.title ? h('p', { dir: 'auto' }, err.message) : null),
		retry && h('button', { type: 'button', onclick: retry }, T.again));
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
