/** What a workspace runs: cards for a few images, a list for many, a line to write where any reference will do. */
import { useId, type ReactNode } from "react";
import type { Images } from "../api/types";
import { useMessages } from "../i18n";
import { SelectField, TextField } from "./fields";
import "./image-choice.css";

type Image = Images["items"][number];

const MOST_CARDS = 6;

interface Props {
  images: Images | undefined;
  value: string;
  onChange: (image: string) => void;
  error: string | null;
}

export function ImageChoice({ images, value, onChange, error }: Props) {
  const m = useMessages();
  if (images && images.items.length === 0)
    return (
      <TextField
        label={m.create.image}
        value={value}
        onChange={onChange}
        error={error}
        autoComplete="off"
        spellCheck={false}
      />
    );
  if (images && images.items.length > MOST_CARDS)
    return (
      <SelectField label={m.create.image} value={value} onChange={onChange} error={error}>
        {images.items.map(({ name }) => (
          <option key={name} value={name}>
            {name === images.default ? `${name} (${m.create.defaultImage})` : name}
          </option>
        ))}
      </SelectField>
    );
  return <Cards images={images} value={value} onChange={onChange} error={error} />;
}

function Cards({ images, value, onChange, error }: Props) {
  const m = useMessages();
  const id = useId();
  const chosen = images?.items.find((image) => image.name === value)?.installation;
  const toInstall = chosen && !chosen.version ? chosen : null;
  return (
    <fieldset className="images" aria-describedby={error ? `${id}-error` : undefined}>
      <legend className="field__label">{m.create.image}</legend>
      <div className="images__cards">
        {images?.items.map((image) => (
          <label key={image.name} className="images__card">
            <input
              type="radio"
              name={id}
              value={image.name}
              checked={image.name === value}
              onChange={() => onChange(image.name)}
            />
            {ICONS[kindOf(image.name)]}
            <span className="images__words">
              <span className="images__title">{titleOf(image)}</span>
              <span className="images__detail">{detail(m, image, images.default)}</span>
            </span>
          </label>
        ))}
      </div>
      {toInstall && (
        <p className="field__hint" role="note">
          {m.create.imageNote(titleOf({ name: value, title: null }), toInstall.disk_mb)}
        </p>
      )}
      {error && (
        <p className="field__error" id={`${id}-error`} role="alert">
          {error}
        </p>
      )}
    </fieldset>
  );
}

function detail(m: ReturnType<typeof useMessages>, image: Image, byDefault: string | null): string {
  const installation = image.installation;
  if (installation?.percent != null) return m.create.imageInstalling(installation.percent);
  if (installation && !installation.version) return m.create.imageToInstall(installation.fetched_mb);
  return image.name === byDefault ? `${image.name} (${m.create.defaultImage})` : image.name;
}

type Kind = "notebook" | "code" | "box";

function kindOf(name: string): Kind {
  if (/jupyter|notebook/i.test(name)) return "notebook";
  return /code-server|vscode|openvscode/i.test(name) ? "code" : "box";
}

const TITLES: Record<string, string> = { jupyterlab: "JupyterLab", "code-server": "VS Code" };

/** What people call it: the last part of a reference, without its tag, if it is one of ours. */
function titleOf({ name, title }: Pick<Image, "name" | "title">): string {
  const last = name.split("/").pop()?.split(/[:@]/)[0] ?? name;
  return title ?? TITLES[last] ?? last;
}

function drawn(paths: ReactNode) {
  return (
    <svg className="images__icon" viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
      {paths}
    </svg>
  );
}

const ICONS: Record<Kind, ReactNode> = {
  notebook: drawn(
    <path d="M7 3h10.5A1.5 1.5 0 0 1 19 4.5v15a1.5 1.5 0 0 1-1.5 1.5H7zM7 3H5v18h2M10.5 8h5M10.5 12h5M3.5 8H7M3.5 16H7" />,
  ),
  code: drawn(<path d="M8.5 7 3.5 12l5 5M15.5 7l5 5-5 5M13.5 5l-3 14" />),
  box: drawn(<path d="m12 3 8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9" />),
};
