/** A choice about the page that this browser remembers. Without storage it lasts until the page is left. */
import { Store } from "./store";

export class Remembered<Value extends string> extends Store<Value> {
  constructor(
    private readonly key: string,
    private readonly values: readonly [Value, ...Value[]],
  ) {
    super(stored(key, values));
  }

  /** Set and remember. Anything but one of the values is the first one. */
  readonly choose = (value: Value): void => {
    this.set(this.values.includes(value) ? value : this.values[0]);
    try {
      localStorage.setItem(this.key, this.get());
    } catch {
      // Storage may be forbidden or full.
    }
  };
}

function stored<Value extends string>(key: string, values: readonly [Value, ...Value[]]): Value {
  try {
    const found = localStorage.getItem(key);
    return values.find((value) => value === found) ?? values[0];
  } catch {
    return values[0];
  }
}
