// Numbers as the command line writes them (models/base/format.cpp).

const GIB = 1024 ** 3;

const threeDigits = (value) => value.toFixed(Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2);

/** Returns "34.1": GiB without the unit. */
export const gib = (bytes) => {
  const value = bytes / GIB;
  return value.toFixed(Math.abs(value) >= 999.5 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2);
};

/** Returns "1,234,567". */
export const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");

/** Returns "4,158": tokens per second have at most three digits behind the point, and none above a hundred. */
export const perSecond = (value) => (value >= 100 ? grouped(Math.round(value)) : threeDigits(value));

/** Returns "8.03 B". */
export const count = (number) => {
  for (const [factor, suffix] of [[1e12, " T"], [1e9, " B"], [1e6, " M"], [1e3, " k"]])
    if (Math.abs(number) >= 0.9995 * factor) return threeDigits(number / factor) + suffix;
  return String(number);
};

/** Returns "2.46 s". */
export const seconds = (value) => {
  if (value === 0) return "0 s";
  if (value >= 5400) return `${threeDigits(value / 3600)} h`;
  if (value >= 90) return `${threeDigits(value / 60)} min`;
  for (const [factor, suffix] of [[1, " s"], [1e-3, " ms"]])
    if (value >= 0.9995 * factor) return threeDigits(value / factor) + suffix;
  return `${threeDigits(value / 1e-6)} µs`;
};

export const percent = (share) => `${Math.round(share * 100)} %`;
