// A few choices side by side, one of them chosen.

export interface ChoicesProps<T extends string> {
  readonly label: string;
  readonly all: readonly (readonly [T, string])[];
  readonly chosen: T;
  readonly onChoose: (choice: T) => void;
}

export function Choices<T extends string>({ label, all, chosen, onChoose }: ChoicesProps<T>) {
  return (
    <fieldset class="choices" aria-label={label}>
      {all.map(([value, title]) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === chosen}
          onClick={() => onChoose(value)}
        >
          {title}
        </button>
      ))}
    </fieldset>
  );
}
