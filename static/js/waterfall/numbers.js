export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

export const percent = (share) => `${(share * 100).toFixed(4)}%`;
