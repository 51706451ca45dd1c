/* What tests/stepTP/test_pages.py asks of a page that is open. */

/* The least contrast of any text with what is behind it, by the formula of WCAG 2. */
window.leastContrast = () => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = (colours) => {
    for (const colour of colours) {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
    }
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((value) => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const ground = (element) =>
    element === null ? [] : [...ground(element.parentElement), getComputedStyle(element).backgroundColor];
  const texts = [...document.querySelectorAll("h1,h2,h3,p,th,td,code,mark,span,a,summary,b")];
  return Math.min(...texts.filter((element) => (element.innerText || "").trim()).map((element) => {
    const behind = ground(element);
    const pair = [luminance(behind), luminance([...behind, getComputedStyle(element).color])];
    return Math.max(...pair) / Math.min(...pair);
  }));
};

/* Texts of pictures that are not whole. */
window.cutTexts = () => {
  return [...document.querySelectorAll("svg text")].filter((text) => {
    const [box, all] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
    return box.left < all.left - 1 || box.right > all.right + 1 || box.top < all.top - 1 || box.bottom > all.bottom + 1;
  }).map((text) => text.textContent);
};

/* Pairs of texts of a picture that lie on one another. */
window.overlappingTexts = () => {
  const boxes = [...document.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  const meet = (one, other) => one.left < other.right - 1 && other.left < one.right - 1
    && one.top < other.bottom - 2 && other.top < one.bottom - 2;
  return boxes.flatMap(([a, one], n) => boxes.slice(n + 1).filter(([, other]) => meet(one, other)).map(([b]) => [a, b]));
};
