// Numbers and times as people read them.

import { T } from './texts.js';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 3 });
const suffixes = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

export const isMoney = (name) => /^spend([-_.]|$)/.test(name);

// inDollars returns millionths as dollars, with all digits or, from a cent on, cut to cents.
function inDollars(n, cut) {
	const size = Math.abs(n);
	const digits = String(size).padStart(7, '0');
	const cents = digits.slice(-6).replace(/0{1,4}$/, '').slice(0, cut && size >= 1e4 ? 2 : 6);
	return `${n < 0 ? '−' : ''}$${whole.format(digits.slice(0, -6))}.${cents}`;
}

// amountText returns an amount of a named limit as people type it. Other texts stay as they are.
export function amountText(n, name) {
	return isMoney(name) && /^\d+$/.test(n) ? exact(n, name).replaceAll(',', '') : n;
}

// amountOf reads what amountText returns, or returns NaN: without their sign, dollars could be millionths.
export function amountOf(text, name) {
	const [, whole, part = ''] = (isMoney(name) ? /^\$(\d+)(?:\.(\d{1,6}))?$/ : /^(\d+)$/).exec(text) ?? [];
	return Number(isMoney(name) ? whole + part.padEnd(6, '0') : whole);
}

// exact returns all digits of a number or of an amount of a named limit.
export function exact(n, name = '') {
	if (isMoney(name)) return inDollars(n);
	return whole.format(n).replace('-', '−');
}

// compact returns three digits of a number, cut: 9,999 of 10,000 is not full.
export function compact(n, name = '') {
	if (isMoney(name)) return Math.abs(n) < 1e9 ? inDollars(n, true) : compact(n / 1e6).replace(/^−?/, '$&$');
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

export function refill(limit) {
	if (limit.window) return T.per(compact(limit.capacity, limit.name), limit.window);
	return T.per(compact(limit.refill_amount, limit.name), duration(limit.refill_period_seconds).replace(/^1 (\w+)$/, '$1'));
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
