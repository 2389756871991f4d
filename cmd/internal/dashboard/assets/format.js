// Numbers and times as people read them.

import { T } from './texts.js';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 3 });
const suffixes = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

const money = /^spend([-_.]|$)/;

// inDollars returns millionths as dollars, cut to cents or, below a cent, to all digits.
function inDollars(n, digits) {
	const size = Math.abs(n) / 1e6;
	const scale = 10 ** (size > 0 && size < 0.01 ? 6 : digits);
	const text = (Math.floor(size * scale + 1e-6) / scale).toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: 6 });
	return `${n < 0 ? '−' : ''}$${text}`;
}

// exact returns all digits of a number, which may be an amount of a named limit.
export function exact(n, name = '') {
	if (money.test(name)) return inDollars(n, 6);
	return whole.format(n).replace('-', '−');
}

// compact returns three digits of a number, cut: 9,999 of 10,000 is not full.
export function compact(n, name = '') {
	if (money.test(name)) return Math.abs(n) < 1e9 ? inDollars(n, 2) : compact(n / 1e6).replace(/^−?/, '$&$');
	const size = Math.abs(n);
	const sign = n < 0 ? '−' : '';
	for (const [unit, suffix] of suffixes) {
		if (size < unit) continue;
		const digits = size / unit >= 100 ? 0 : size / unit >= 10 ? 1 : 2;
		const scale = 10 ** digits;
		return `${sign}${Math.floor(size * scale / unit) / scale}${suffix}`;
	}
	return sign + (Number.isInteger(size) ? size : Math.floor(size * 100) / 100);
}

// percent returns whole percents, cut. Debt: 1.8k%.
export function percent(value) {
	const n = Math.floor(Math.max(0, value));
	const cut = (unit) => parseFloat(`${n / unit}`.slice(0, 3));
	return n < 1e3 ? `${n} %` : n < 1e5 ? `${cut(1e3)}k%` : `${cut(1e6)}M%`;
}

const units = [[86400, T.day], [3600, T.hour], [60, T.minute], [1, T.second]];

// duration returns a time in its two largest units, rounded up to whole seconds.
export function duration(seconds) {
	if (seconds <= 0) return `0 ${T.second}`;
	if (seconds > 3153600000) return T.centuries;
	const rest = Math.ceil(seconds);
	const first = units.findIndex(([size]) => rest >= size);
	const [size, unit] = units[first];
	const large = `${Math.floor(rest / size)} ${unit}`;
	if (first === 3) return large;
	const [below, name] = units[first + 1];
	const small = Math.floor((rest % size) / below);
	return small ? `${large} ${small} ${name}` : large;
}

const periods = { 1: T.second, 60: T.minute, 3600: T.hour, 86400: T.day };

export function refill(limit) {
	if (limit.window) return T.per(compact(limit.capacity, limit.name), limit.window);
	const seconds = limit.refill_period_seconds;
	return T.per(compact(limit.refill_amount, limit.name), periods[seconds] ?? duration(seconds));
}

export function limitText(limit) {
	const burst = limit.window || limit.capacity === limit.refill_amount ? '' : `, ${T.capacityOf(compact(limit.capacity, limit.name))}`;
	return `${limit.name} ${refill(limit)}${limit.zone ? ` ${limit.zone}` : ''}${burst}${limit.shadow ? `, ${T.shadow}` : ''}`;
}

let skew = 0;

// setServerTime notes the time of the server, whose clock may differ from ours.
export function setServerTime(text) {
	const at = Date.parse(text);
	if (!Number.isNaN(at)) skew = at - Date.now();
}

export function now() {
	return Date.now() + skew;
}

export function ago(text) {
	const at = Date.parse(text);
	if (Number.isNaN(at) || at <= 0) return '–';
	const seconds = Math.floor((now() - at) / 1000);
	if (seconds < 1) return T.justNow;
	const [size, unit] = units.find(([s]) => seconds >= s);
	return T.ago(`${Math.floor(seconds / size)} ${unit}`);
}

const pad = (n) => String(n).padStart(2, '0');

export function clock(date) {
	return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

export function dateTime(text) {
	const d = new Date(text);
	if (Number.isNaN(d.getTime()) || d.getTime() <= 0) return '–';
	return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(d)}`;
}

// countdown writes the time that is left into an element, each second, and calls done at zero.
export function countdown(element, seconds, signal, done) {
	const end = performance.now() + seconds * 1000;
	const tick = () => {
		const left = (end - performance.now()) / 1000;
		if (left > 0) {
			element.textContent = duration(left);
			return;
		}
		clearInterval(timer);
		element.textContent = duration(0);
		done?.();
	};
	const timer = setInterval(tick, 250);
	signal.addEventListener('abort', () => clearInterval(timer));
	tick();
}
