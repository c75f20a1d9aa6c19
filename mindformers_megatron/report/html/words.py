"""The page's own words, in English and Chinese. Both are in every page; the reader chooses."""

from typing import Any

from markupsafe import Markup

# Key → (English, 中文). What stands in braces is filled in, escaped. Keys that begin with "js." go to the script too.
WORDS: dict[str, tuple[str, str]] = {
    "title": ("Data report", "数据报告"),
    "skip": ("Skip to the findings", "跳到结论"),
    "made": ("Made {time} by mindformers-megatron {version}", "由 mindformers-megatron {version} 生成于 {time}"),
    "plan": ("data plan {fingerprint}", "数据计划 {fingerprint}"),
    "language": ("中文", "English"),
    "theme": ("Light / dark", "浅色 / 深色"),
    "numbers": ("The numbers", "具体数字"),
    # Headings, also in the navigation.
    "findings": ("Findings", "结论"),
    "mix": ("Mix", "配比"),
    "corpora": ("Corpora", "语料"),
    "funnel": ("Funnel", "漏斗"),
    "drops": ("Dropped", "丢弃"),
    "lengths": ("Lengths", "长度"),
    "languages": ("Languages", "语言"),
    "duplicates": ("Duplicates", "重复"),
    "contamination": ("Contamination", "评测泄漏"),
    "samples": ("Samples", "样本"),
    "documents": ("Documents", "文档"),
    # Findings.
    "find.check": ("check", "注意"),
    "find.fine": ("fine", "正常"),
    "find.mix": (
        "The mix is the mix: after {samples} samples no corpus is more than {off} points off what was asked.",
        "配比如所设：{samples} 个样本之后，各语料与所设份额的偏差都不超过 {off} 个百分点。",
    ),
    "find.mix_exact": (
        "The mix is the mix: of {samples} samples each corpus has given exactly the share that was asked.",
        "配比如所设：{samples} 个样本中，各语料的份额与所设完全一致。",
    ),
    "find.mix_off": (
        "{name} has given {given} of {samples} samples; {asked} was asked.",
        "{samples} 个样本中 {name} 占 {given}，所设为 {asked}。",
    ),
    "find.recorded": (
        "The run's own log agrees with the plan in every report ({count}); rows of real batches compared: {rows}.",
        "训练自己的记录共 {count} 次，全部与计划一致；其中比对了真实批次的 {rows} 行。",
    ),
    "find.recorded_off": (
        "In {off} of {count} reports the run's own log is not what the plan says: the log is of another run, or the "
        "batches were changed on their way.",
        "训练自己的 {count} 次记录中有 {off} 次与计划不符：记录属于另一次训练，或批次在途中被改动。",
    ),
    "find.repeats": (
        "{name} is gone through {epochs} times over the whole run; beyond about 4 times, repeated data teach little.",
        "整个训练中 {name} 要过 {epochs} 遍；重复超过约 4 遍，数据就不再有多少新东西。",
    ),
    "find.no_repeats": (
        "No corpus is gone through more than {epochs} times over the whole run.",
        "整个训练中没有语料超过 {epochs} 遍。",
    ),
    "find.unreached": (
        "{name} is never reached in the whole run.",
        "整个训练都不会用到 {name}。",
    ),
    "find.kept": (
        "{kept} of {all} documents were kept ({share}); most were lost in {step} ({lost}).",
        "{all} 篇文档保留了 {kept} 篇（{share}）；丢得最多的一步是 {step}（{lost} 篇）。",
    ),
    "find.kept_all": ("All {all} documents were kept.", "{all} 篇文档全部保留。"),
    "find.source_lost": (
        "{name} lost {share} of its documents, {lost} of them in {step}.",
        "{name} 的文档丢了 {share}，其中 {lost} 篇丢在 {step}。",
    ),
    "find.rejects": ("Records that could not be read: {count}.", "{count} 条记录无法读取。"),
    "find.whole_items": (
        "Items of {name} that stood in the raw corpus word for word: {count}.",
        "{name} 有 {count} 道题原样出现在原始语料中。",
    ),
    "find.part_items": (
        "Items of {name} of which parts stood in the raw corpus: {count}. None stood there whole.",
        "{name} 有 {count} 道题的片段出现在原始语料中，没有整题出现。",
    ),
    "find.taken_out": (
        "What was found of evaluation sets was taken out. Documents dropped: {dropped}, cut: {cut}.",
        "发现的评测内容已去除：丢弃 {dropped} 篇文档，删减 {cut} 篇。",
    ),
    "find.clean": ("Nothing of {name} was found in the corpus.", "语料中没有发现 {name} 的内容。"),
    "find.cluster": (
        "The largest cluster of near duplicates has {size} documents.",
        "最大的一簇近似重复有 {size} 篇文档。",
    ),
    "find.empty": ("Nothing to report on was found here.", "这里没有可报告的内容。"),
    # Mix.
    "mix.so_far": (
        "The first {samples} samples, as far as the run has come ({share} of it).",
        "训练到目前为止的前 {samples} 个样本（全程的 {share}）。",
    ),
    "mix.whole": (
        "The whole run, {samples} samples, as its plan will give them: it has not begun, or left no data state.",
        "整个训练的 {samples} 个样本，按计划计算：训练尚未开始，或没有留下数据状态。",
    ),
    "mix.asked": ("asked", "所设"),
    "mix.given": ("delivered", "实际"),
    "mix.off": ("off, points", "偏差（百分点）"),
    "mix.counted": ("of tokens", "词元份额"),
    "mix.samples": ("samples", "样本"),
    "mix.corpus": ("corpus", "语料"),
    "mix.bar": ("delivered, and a mark at what was asked", "实际份额；竖线为所设"),
    "mix.epochs": ("epochs", "遍数"),
    "mix.epochs_whole": ("epochs, whole run", "全程遍数"),
    "mix.over": ("Delivered over the run", "训练过程中的实际份额"),
    "mix.over_key": (
        "Line: delivered, in stretches of the run ({count}). Dashes: asked.",
        "实线：{count} 段中每段的实际份额。虚线：所设。",
    ),
    "mix.dots": ("Dots: what the run wrote down.", "圆点：训练自己的记录。"),
    "mix.from": ("from sample", "起始样本"),
    "mix.to": ("to", "至"),
    "mix.here": ("The run is at sample {samples}.", "训练位于样本 {samples}。"),
    "mix.range": ("{low} to {high}", "{low} 至 {high}"),
    # Corpora.
    "corpora.tokens": ("tokens", "词元"),
    "corpora.documents": ("documents", "文档"),
    "corpora.median": ("median length", "长度中位数"),
    "corpora.longest": ("longest", "最长"),
    "corpora.path": ("path", "路径"),
    # Funnel, drops.
    "funnel.step": ("step", "步骤"),
    "funnel.in": ("in", "进入"),
    "funnel.out": ("out", "留下"),
    "funnel.lost": ("dropped", "丢弃"),
    "funnel.changed": ("changed", "改写"),
    "funnel.bytes": ("bytes out", "留下字节"),
    "funnel.left": ("left of all", "累计保留"),
    "funnel.by_source": (
        "Documents left of each source, and how many each step dropped",
        "各来源每步之后的保留比例与丢弃篇数",
    ),
    "funnel.unread": ("records that could not be read", "无法读取的记录"),
    "drops.changed": ("changed by this step", "被这一步改写"),
    "drops.before": ("before", "之前"),
    "drops.after": ("after", "之后"),
    "drops.none": ("Nothing was dropped.", "没有丢弃任何文档。"),
    # Lengths and languages.
    "lengths.characters": ("{name}: characters of the documents kept", "{name}：保留文档的字符数"),
    "lengths.tokens": ("{name}: tokens of its documents", "{name}：文档的词元数"),
    "lengths.part": ("{documents} of {all} documents looked at", "抽看 {all} 篇中的 {documents} 篇"),
    "lengths.range": ("length", "长度"),
    "languages.language": ("language", "语言"),
    # Duplicates, contamination.
    "duplicates.near": (
        "{documents} documents resemble each other, in {clusters} clusters; {dropped} were dropped.",
        "{documents} 篇文档彼此近似，分为 {clusters} 簇；丢弃 {dropped} 篇。",
    ),
    "duplicates.exact": (
        "{compared} compared; {dropped} repeat one of {groups} that are kept.",
        "比较 {compared} 处；{dropped} 处重复了保留的 {groups} 处之一。",
    ),
    "duplicates.near_none": ("no document resembles another.", "没有近似的文档。"),
    "duplicates.exact_none": ("{compared} compared; none repeats another.", "比较 {compared} 处；没有重复。"),
    "duplicates.intro": (
        "The largest clusters, and those that resemble each other least: each document that was dropped beside the one "
        "that was kept. Marked: what differs.",
        "最大的几簇，以及最不相似的几簇：被丢弃的文档与保留的文档并排。标出的是不同之处。",
    ),
    "duplicates.cluster": ("Cluster of {size}", "{size} 篇一簇"),
    "duplicates.kept": ("kept", "保留"),
    "duplicates.dropped": ("dropped, similarity {similarity}", "丢弃，相似度 {similarity}"),
    "contamination.set": ("evaluation set", "评测集"),
    "contamination.items": ("items", "题"),
    "contamination.searched": ("searched", "已查"),
    "contamination.found": ("found in part", "部分出现"),
    "contamination.whole": ("found whole", "整题出现"),
    "contamination.item": ("item", "题目"),
    "contamination.ngrams": ("n-grams found", "命中 n-gram"),
    "contamination.worst": ("The items with the largest share found", "命中比例最大的题目"),
    "contamination.spans": ("Where they stand", "出现的位置"),
    # Viewers.
    "samples.intro": ("What the model is given, row by row.", "模型逐行得到的内容。"),
    "samples.one": ("one document", "一篇文档"),
    "samples.another": ("another", "另一篇"),
    "samples.off": ("loss masked", "损失被掩"),
    "samples.reset": ("positions start anew", "位置重新计数"),
    "samples.filter": ("Filter samples", "筛选样本"),
    "samples.look": ("Look up", "查询"),
    "samples.step": ("step", "步"),
    "samples.rank": ("rank", "卡号"),
    "samples.sample": ("or sample", "或样本号"),
    "samples.document": ("or document id", "或文档 id"),
    "documents.intro": (
        "{shown} of {all} documents, evenly spaced. Each with the file and line it comes from.",
        "{all} 篇文档中均匀抽取的 {shown} 篇，各附来源文件与行号。",
    ),
    "documents.filter": ("Filter by text, id or file", "按文本、id 或文件筛选"),
    "script": (
        "Samples and documents are shown by a script, which this browser does not run.",
        "样本和文档由脚本显示，而此浏览器没有运行脚本。",
    ),
    "js.shown": ("{shown} of {all}", "{all} 条中的 {shown} 条"),
    "js.place": ("step {step} · rank {rank} · row {row}", "第 {step} 步 · 卡 {rank} · 第 {row} 行"),
    "js.sample": ("sample {sample}", "样本 {sample}"),
    "js.epoch": ("epoch {epoch}", "第 {epoch} 遍"),
    "js.documents": ("{count} documents", "{count} 篇文档"),
    "js.document": ("1 document", "1 篇文档"),
    "js.loss": (
        "Loss on {counted} of {all} inputs. Positions from 0 to {top}, starting anew {resets} times.",
        "{all} 个输入中 {counted} 个计损失。位置 0 至 {top}，重新计数 {resets} 次。",
    ),
    "js.token": (
        "column {column} · id {id} · position {position} · {loss}",
        "第 {column} 列 · id {id} · 位置 {position} · {loss}",
    ),
    "js.counts": ("loss counts", "计损失"),
    "js.masked": ("loss masked", "损失被掩"),
    "js.label": ("label only", "仅作标签"),
    "js.hover": ("Point at a token to see its numbers.", "指向词元可看其数字。"),
    "js.strip": ("documents · loss · positions", "文档 · 损失 · 位置"),
    "js.whole": ("document {number}, whole: {length} tokens", "文档 {number}，全篇 {length} 个词元"),
    "js.part": (
        "document {number}: tokens {first} to {last} of {total}",
        "文档 {number}：第 {first} 至 {last} 个词元，共 {total} 个",
    ),
    "js.tokens": ("{count} tokens", "{count} 个词元"),
    "js.column": ("from column {column}", "自第 {column} 列"),
    "js.source": ("Show the source", "查看来源"),
    "js.seen": ("seen in {count} samples up to step {until}", "到第 {until} 步为止出现在 {count} 个样本中"),
    "js.failed": ("The look-up failed: {reason}", "查询失败：{reason}"),
    "js.busy": ("Looking…", "查询中…"),
    "js.more": ("{count} more are not shown", "另有 {count} 条未显示"),
}


def say(key: str, **values: Any) -> Markup:
    """The words of a key in both languages, of which the page shows one.

    Args:
        key: of ``WORDS``.
        values: filled in; whole numbers with separators, anything that is not ``Markup`` escaped.
    """
    english, chinese = WORDS[key]
    filled = {name: f"{value:,}" if isinstance(value, int) else value for name, value in values.items()}
    return Markup('<span lang="en">{}</span><span lang="zh-CN">{}</span>').format(
        Markup(english).format(**filled), Markup(chinese).format(**filled)
    )


def script_words() -> dict[str, tuple[str, str]]:
    """The words that the script needs, without "js."."""
    return {key.removeprefix("js."): both for key, both in WORDS.items() if key.startswith("js.")}
