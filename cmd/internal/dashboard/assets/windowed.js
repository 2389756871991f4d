// A long list. Only the lines near the screen are elements.

const margin = 800;
const guess = 56;

// Windowed shows items by scrolling the page. Items have a key and a shape; items of one
// shape are about equally high.
export class Windowed {
	constructor(body, { create, change, visible, signal }) {
		Object.assign(this, { body, create, change, visible });
		this.items = [];
		this.index = new Map();
		this.offsets = [0];
		this.sizes = new Map();
		this.shapes = new Map();
		this.shown = new Map();
		this.width = 0;
		const later = () => this.later();
		addEventListener('scroll', later, { passive: true, signal });
		addEventListener('resize', later, { passive: true, signal });
	}

	set(items) {
		this.items = items;
		this.index = new Map(items.map((item, i) => [item.key, i]));
		this.measure();
		this.render();
	}

	clear() {
		this.body.replaceChildren();
		this.shown.clear();
		this.sizes.clear();
		this.shapes.clear();
	}

	// holder returns the index of the item that Tab reaches: the active one, or the first on
	// the screen.
	holder(key) {
		const at = this.index.get(key) ?? -1;
		return at >= this.first && at < this.last ? at : this.top;
	}

	later() {
		this.frame ||= requestAnimationFrame(() => {
			this.frame = 0;
			this.render();
		});
	}

	measure() {
		const offsets = new Float64Array(this.items.length + 1);
		this.items.forEach((item, i) => {
			offsets[i + 1] = offsets[i] + (this.sizes.get(item.key) ?? this.shapes.get(item.shape) ?? guess);
		});
		this.offsets = offsets;
	}

	at(y) {
		let low = 0;
		let high = this.items.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			if (this.offsets[middle + 1] <= y) low = middle + 1;
			else high = middle;
		}
		return low;
	}

	render() {
		if (!this.body.isConnected) return;
		const { top, width } = this.body.getBoundingClientRect();
		if (width !== this.width) {
			this.width = width;
			this.sizes.clear();
			this.measure();
		}
		const first = this.at(-top - margin);
		const last = Math.min(this.items.length, this.at(innerHeight - top + margin) + 1);
		Object.assign(this, { first, last, top: Math.min(this.items.length - 1, this.at(100 - top)) });
		this.place(first, last);
		this.correct(first, last);
		this.visible?.(this.items.slice(this.at(-top), this.at(innerHeight - top) + 1));
	}

	place(first, last) {
		const wanted = new Set(this.items.slice(first, last).map((item) => item.key));
		for (const [key, part] of this.shown) {
			if (wanted.has(key)) continue;
			if (part.element.contains(document.activeElement)) this.body.focus({ preventScroll: true });
			part.element.remove();
			this.shown.delete(key);
		}
		let cursor = this.body.firstChild;
		for (let i = first; i < last; i++) {
			const item = this.items[i];
			let part = this.shown.get(item.key);
			if (part) this.change(part, item, i);
			else {
				part = this.create(item, i);
				this.shown.set(item.key, part);
			}
			if (part.element === cursor) cursor = cursor.nextSibling;
			else this.body.insertBefore(part.element, cursor);
		}
		this.pad(first, last);
	}

	pad(first, last) {
		this.body.style.paddingTop = `${this.offsets[first] ?? 0}px`;
		this.body.style.paddingBottom = `${this.offsets[this.items.length] - (this.offsets[last] ?? 0)}px`;
	}

	// correct replaces guesses by the heights of the elements.
	correct(first, last) {
		let wrong = false;
		for (let i = first; i < last; i++) {
			const item = this.items[i];
			const { height } = this.shown.get(item.key).element.getBoundingClientRect();
			if (height && this.sizes.get(item.key) !== height) {
				wrong = true;
				this.sizes.set(item.key, height);
				this.shapes.set(item.shape, height);
			}
		}
		if (!wrong) return;
		this.measure();
		this.pad(first, last);
	}

	reveal(index) {
		const item = this.items[index];
		const { top } = this.body.getBoundingClientRect();
		const from = top + this.offsets[index];
		const to = top + this.offsets[index + 1];
		if (from < 120) scrollBy(0, from - 120);
		else if (to > innerHeight - 16) scrollBy(0, to - innerHeight + 16);
		this.render();
		return this.shown.get(item.key);
	}
}
