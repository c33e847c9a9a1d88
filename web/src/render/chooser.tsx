// A drop-down list, for more choices than fit side by side.

export interface ChooserProps {
  readonly label: string;
  readonly all: readonly (readonly [string, string])[];
  readonly chosen: string;
  readonly onChoose: (choice: string) => void;
}

export function Chooser({ label, all, chosen, onChoose }: ChooserProps) {
  return (
    <label class="chooser">
      {label}
      <select value={chosen} onChange={(event) => onChoose(event.currentTarget.value)}>
        {all.map(([value, title]) => (
          <option key={value} value={value}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}
