import { screen, waitFor } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { show } from "../test-page";
import { Menu } from "./menu";

function aMenu(label = "More") {
  const chosen = vi.fn();
  const page = show(
    <>
      <Menu
        label={label}
        button="…"
        items={[
          { label: "Details", onSelect: () => chosen("Details", document.activeElement) },
          { label: "Rename", onSelect: () => chosen("Rename", document.activeElement), disabled: true },
          "line",
          { label: "Delete", onSelect: () => chosen("Delete", document.activeElement), tone: "danger" },
        ]}
      />
      <button type="button">Elsewhere</button>
    </>,
  );
  return { ...page, chosen, button: screen.getByRole("button", { name: label }) };
}

const item = (name: string) => screen.getByRole("menuitem", { name });

test("opens with the keyboard at its first item, and says so", async () => {
  const { person, button } = aMenu();
  expect(button.getAttribute("aria-haspopup")).toBe("menu");
  button.focus();
  await person.keyboard("{Enter}");
  expect(button.getAttribute("aria-expanded")).toBe("true");
  expect(document.activeElement).toBe(item("Details"));
});

test("arrows pass over what is disabled and go round, letters jump", async () => {
  const { person, button } = aMenu();
  button.focus();
  await person.keyboard("{Enter}{ArrowDown}");
  expect(document.activeElement).toBe(item("Delete"));
  await person.keyboard("{ArrowDown}");
  expect(document.activeElement).toBe(item("Details"));
  await person.keyboard("del");
  expect(document.activeElement).toBe(item("Delete"));
});

test("Escape closes it and gives the focus back", async () => {
  const { person, button, chosen } = aMenu();
  button.focus();
  await person.keyboard("{Enter}{Escape}");
  await waitFor(() => expect(document.activeElement).toBe(button));
  expect(screen.queryByRole("menu")).toBeNull();
  expect(chosen).not.toHaveBeenCalled();
});

test("an action runs once, when the menu is closed and its button has the focus", async () => {
  const { person, button, chosen } = aMenu();
  await person.click(button);
  await person.click(item("Delete"));
  await waitFor(() => expect(chosen).toHaveBeenCalledWith("Delete", button));
  expect(chosen).toHaveBeenCalledTimes(1);
  expect(screen.queryByRole("menu")).toBeNull();
});

test("what is disabled says so and does nothing", async () => {
  const { person, button, chosen } = aMenu();
  await person.click(button);
  expect(item("Rename").getAttribute("aria-disabled")).toBe("true");
  await person.click(item("Rename"));
  expect(chosen).not.toHaveBeenCalled();
});

test("a click elsewhere closes it and leaves the focus there", async () => {
  const { person, button } = aMenu();
  await person.click(button);
  const elsewhere = screen.getByRole("button", { name: "Elsewhere" });
  await person.click(elsewhere);
  await waitFor(() => expect(screen.queryByRole("menu")).toBeNull());
  expect(document.activeElement).toBe(elsewhere);
});
