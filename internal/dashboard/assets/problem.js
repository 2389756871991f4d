// What went wrong, as a box in the page.

import { T } from './texts.js';
import { button, h } from './dom.js';

// problemBox shows an error, with a button if something can be done again.
export function problemBox(err, retry) {
	return h('div.problem', { role: 'alert' },
		h('div', h('strong', err.title || T.wentWrong), err.message && err.message !== err.title ? h('p', { dir: 'auto' }, err.message) : null),
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
