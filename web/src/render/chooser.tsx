// One of several, in a list that opens: where there is no room for all of them side by side.

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
