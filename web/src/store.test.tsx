import { act, cleanup, render } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { Signal, Store, useStore } from "./store";

afterEach(cleanup);

test("subscribers hear of a change, and of nothing when the value stays", () => {
  const store = new Store(1);
  const heard = vi.fn();
  const leave = store.subscribe(heard);
  store.set(2);
  store.set(2);
  expect([store.get(), heard.mock.calls.length]).toEqual([2, 1]);
  leave();
  store.set(3);
  expect(heard).toHaveBeenCalledTimes(1);
});

test("its source runs while somebody watches, once", () => {
  const stop = vi.fn();
  const start = vi.fn(() => stop);
  const store = new Store(0, { whileWatched: start });
  const listener = () => undefined;
  const [first, second] = [store.subscribe(listener), store.subscribe(listener)];
  first();
  expect([start.mock.calls.length, stop.mock.calls.length]).toEqual([1, 0]);
  second();
  expect(stop).toHaveBeenCalledTimes(1);
  store.subscribe(listener)();
  expect([start.mock.calls.length, stop.mock.calls.length]).toEqual([2, 2]);
});

test("a component renders again only for the part it selected", () => {
  const store = new Store({ mine: 1, other: 1 });
  let renders = 0;
  function Mine() {
    renders++;
    return <p>{useStore(store, (value) => value.mine)}</p>;
  }
  const { container } = render(<Mine />);
  act(() => store.set({ mine: 1, other: 2 }));
  expect(renders).toBe(1);
  act(() => store.set({ mine: 2, other: 2 }));
  expect([renders, container.textContent]).toEqual([2, "2"]);
});

test("a signal passes details on", () => {
  const signal = new Signal<[string, number]>();
  const heard = vi.fn();
  signal.subscribe(heard);
  signal.emit("a", 1);
  expect(heard).toHaveBeenCalledWith("a", 1);
});
