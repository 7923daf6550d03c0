<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="zh_CN" sourcelanguage="en">
<context>
    <name>line</name>
    <message>
        <source>model</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>GPUs</source>
        <translation>GPU 数量</translation>
    </message>
    <message>
        <source>GPU</source>
        <translation>GPU 型号</translation>
    </message>
    <message>
        <source>memory per GPU</source>
        <translation>每块 GPU 的显存</translation>
    </message>
    <message>
        <source>nodes</source>
        <translation>节点数</translation>
    </message>
    <message>
        <source>strategy</source>
        <translation>策略</translation>
    </message>
    <message>
        <source>method</source>
        <translation>方法</translation>
    </message>
    <message>
        <source>precision</source>
        <translation>精度</translation>
    </message>
    <message>
        <source>optimizer used</source>
        <translation>所用优化器</translation>
    </message>
    <message>
        <source>checkpointing</source>
        <translation>激活检查点</translation>
    </message>
    <message>
        <source>sequence length</source>
        <translation>序列长度</translation>
    </message>
    <message>
        <source>micro-batch</source>
        <translation>微批大小</translation>
    </message>
    <message>
        <source>micro-batches per step</source>
        <translation>每步微批数</translation>
    </message>
    <message>
        <source>parameters</source>
        <translation>参数</translation>
    </message>
    <message>
        <source>gradients</source>
        <translation>梯度</translation>
    </message>
    <message>
        <source>optimizer states</source>
        <translation>优化器状态</translation>
    </message>
    <message>
        <source>activations</source>
        <translation>激活</translation>
    </message>
    <message>
        <source>loss</source>
        <translation>损失</translation>
    </message>
    <message>
        <source>communication buffers</source>
        <translation>通信缓冲区</translation>
    </message>
    <message>
        <source>temporaries</source>
        <translation>临时张量</translation>
    </message>
    <message>
        <source>framework overhead</source>
        <translation>框架开销</translation>
    </message>
    <message>
        <source>allocator slack</source>
        <translation>分配器空隙</translation>
    </message>
    <message>
        <source>needs</source>
        <translation>需求</translation>
    </message>
    <message>
        <source>free</source>
        <translation>剩余</translation>
    </message>
    <message>
        <source>host memory per node</source>
        <translation>每节点主机内存</translation>
    </message>
    <message>
        <source>peak in</source>
        <translation>峰值所在</translation>
    </message>
    <message>
        <source>verdict</source>
        <translation>结论</translation>
    </message>
    <message>
        <source>collective calls</source>
        <translation>集合通信调用次数</translation>
    </message>
    <message>
        <source>sent per GPU</source>
        <translation>每块 GPU 发送量</translation>
    </message>
    <message>
        <source>communication</source>
        <translation>通信</translation>
    </message>
    <message>
        <source>step</source>
        <translation>一步时间</translation>
    </message>
    <message>
        <source>of that compute</source>
        <translation>其中计算</translation>
    </message>
    <message>
        <source>waiting for launches</source>
        <translation>等待内核启动</translation>
    </message>
    <message>
        <source>exposed communication</source>
        <translation>未被掩盖的通信</translation>
    </message>
    <message>
        <source>offload</source>
        <translation>卸载</translation>
    </message>
    <message>
        <source>optimizer</source>
        <translation>优化器</translation>
    </message>
    <message>
        <source>samples per step</source>
        <translation>每步样本数</translation>
    </message>
    <message>
        <source>tokens per second</source>
        <translation>每秒词元数</translation>
    </message>
    <message>
        <source>MFU</source>
        <translation>MFU</translation>
    </message>
</context>
<context>
    <name>verdict</name>
    <message>
        <source>full fine-tuning</source>
        <translation>全参数微调</translation>
    </message>
    <message>
        <source>{} by {}</source>
        <translation>{}，{}</translation>
    </message>
    <message>
        <source> of {}</source>
        <translation>（{}）</translation>
    </message>
    <message>
        <source>one {}{}</source>
        <translation>1 块 {}{}</translation>
    </message>
    <message>
        <source>{} x {}{}</source>
        <translation>{} 块 {}{}</translation>
    </message>
    <message>
        <source>{}, {}, on {}</source>
        <translation>{}，{}，{}</translation>
    </message>
    <message>
        <source>fits with {}, {}</source>
        <translation>放得下：{}，{}</translation>
    </message>
    <message>
        <source>does not fit. The nearest, {}, {}</source>
        <translation>放不下。最接近的 {} {}</translation>
    </message>
    <message>
        <source>does not fit with {}, which {}</source>
        <translation>放不下：{}，{}</translation>
    </message>
    <message>
        <source>It fits with {} ({}): {}</source>
        <translation>可以用 {}（{}）：{}</translation>
    </message>
    <message>
        <source>{} of {} per GPU</source>
        <translation>每块 GPU 需要 {}，可用 {}</translation>
    </message>
    <message>
        <source> ({} to {})</source>
        <translation>（{} 到 {}）</translation>
    </message>
    <message>
        <source>, {} of host memory per node</source>
        <translation>，每个节点主机内存 {}</translation>
    </message>
    <message>
        <source>, {} a step</source>
        <translation>，每步 {}</translation>
    </message>
    <message>
        <source>, {} tokens/s</source>
        <translation>，每秒 {} 词元</translation>
    </message>
    <message>
        <source>needs {} of {} per GPU</source>
        <translation>每块 GPU 需要 {}，可用 {}</translation>
    </message>
    <message>
        <source>needs {} of {} of host memory per node</source>
        <translation>每个节点主机内存需要 {}，可用 {}</translation>
    </message>
    <message>
        <source>does not fit</source>
        <translation>放不下</translation>
    </message>
    <message>
        <source>lacks memory beside the steps: {}</source>
        <translation>步骤以外内存不足：{}</translation>
    </message>
    <message>
        <source>runs out of memory in {}</source>
        <translation>{} 时内存不足</translation>
    </message>
    <message>
        <source>fastest with {}, {}</source>
        <translation>最快：{}，{}</translation>
    </message>
</context>
<context>
    <name>zplan</name>
    <message>
        <source>fits</source>
        <translation>放得下</translation>
    </message>
    <message>
        <source>short of host</source>
        <translation>主机内存不足</translation>
    </message>
    <message>
        <source>does not fit</source>
        <translation>放不下</translation>
    </message>
</context>
<context>
    <name>zplan::gui</name>
    <message>
        <source>Level</source>
        <translation>级别</translation>
    </message>
    <message>
        <source>Line</source>
        <translation>行</translation>
    </message>
    <message>
        <source>Key</source>
        <translation>键</translation>
    </message>
    <message>
        <source>What is wrong</source>
        <translation>问题所在</translation>
    </message>
</context>
<context>
    <name>zplan::gui::BarChart</name>
    <message>
        <source>Bar chart</source>
        <translation>条形图</translation>
    </message>
</context>
<context>
    <name>zplan::gui::Chart</name>
    <message>
        <source>Nothing to show</source>
        <translation>没有可显示的内容</translation>
    </message>
    <message>
        <source>Current: %1</source>
        <translation>当前：%1</translation>
    </message>
</context>
<context>
    <name>zplan::gui::ChecksEditor</name>
    <message>
        <source>“%1”</source>
        <translation>“%1”</translation>
    </message>
    <message>
        <source>considered by default</source>
        <translation>默认考虑</translation>
    </message>
</context>
<context>
    <name>zplan::gui::ChoiceEditor</name>
    <message>
        <source>default</source>
        <translation>默认</translation>
    </message>
    <message>
        <source>default (%1)</source>
        <translation>默认 (%1)</translation>
    </message>
</context>
<context>
    <name>zplan::gui::ComparisonModel</name>
    <message>
        <source>%1: difference from %2</source>
        <translation>%1：与 %2 的差异</translation>
    </message>
    <message>
        <source>%1, the baseline</source>
        <translation>%1，基准</translation>
    </message>
    <message>
        <source>%1, the best of the line</source>
        <translation>%1，一行中最好</translation>
    </message>
    <message>
        <source>%1 best of the line   %2 not there   ± difference from the baseline</source>
        <translation>%1 一行中最好   %2 没有   ± 与基准的差异</translation>
    </message>
</context>
<context>
    <name>zplan::gui::ComparisonView</name>
    <message>
        <source>Scenarios</source>
        <translation>方案</translation>
    </message>
    <message>
        <source>Compare the ticked scenarios, each by its strategy</source>
        <translation>比较勾选的方案，各用自己的策略</translation>
    </message>
    <message>
        <source>Strategies</source>
        <translation>策略</translation>
    </message>
    <message>
        <source>Compare the strategies of the current scenario</source>
        <translation>比较当前方案的各种策略</translation>
    </message>
    <message>
        <source>Differences only</source>
        <translation>只看差异</translation>
    </message>
    <message>
        <source>Leave out lines in which all are alike</source>
        <translation>略去各列都相同的行</translation>
    </message>
    <message>
        <source>Compare:</source>
        <translation>比较：</translation>
    </message>
    <message>
        <source>Charts</source>
        <translation>图</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>显存</translation>
    </message>
    <message>
        <source>What each GPU needs, by what it is made of</source>
        <translation>每块 GPU 需要多少、由什么组成</translation>
    </message>
    <message>
        <source>Over the step</source>
        <translation>一步之内</translation>
    </message>
    <message>
        <source>Live memory over one step</source>
        <translation>一步之内的活动显存</translation>
    </message>
    <message>
        <source>Time</source>
        <translation>时间</translation>
    </message>
    <message>
        <source>What a step&apos;s time goes into</source>
        <translation>一步的时间花在哪里</translation>
    </message>
    <message>
        <source>Traffic</source>
        <translation>通信量</translation>
    </message>
    <message>
        <source>What a GPU sends in one step, by phase</source>
        <translation>每块 GPU 一步发送多少，按阶段划分</translation>
    </message>
    <message>
        <source>Trade-off</source>
        <translation>权衡</translation>
    </message>
    <message>
        <source>Memory against tokens per second, every strategy</source>
        <translation>所有策略的显存与每秒词元数</translation>
    </message>
    <message>
        <source>Comparison</source>
        <translation>比较</translation>
    </message>
    <message>
        <source>Figures</source>
        <translation>数字</translation>
    </message>
    <message>
        <source>Why</source>
        <translation>原因</translation>
    </message>
    <message>
        <source>Explain</source>
        <translation>解释</translation>
    </message>
    <message>
        <source>Config</source>
        <translation>配置</translation>
    </message>
    <message numerus="yes">
        <source>Comparison (%n left out)</source>
        <comment>lines</comment>
        <translation>
            <numerusform>比较（略去 %n 行）</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>zplan::gui::ConfigPreview</name>
    <message>
        <source>This is a report that was saved. Its configuration can be made from the question that it answered: add a scenario for that.</source>
        <translation>这是保存的报告。它的配置可以由它所回答的问题生成：请为此添加一个方案。</translation>
    </message>
    <message>
        <source>%1 needs no configuration: plain PyTorch is set up by the program itself.</source>
        <translation>%1 不需要配置：纯 PyTorch 由程序自身设置。</translation>
    </message>
    <message>
        <source>Save configuration</source>
        <translation>保存配置</translation>
    </message>
    <message>
        <source>Configuration</source>
        <translation>配置</translation>
    </message>
    <message>
        <source>Style of the configuration</source>
        <translation>配置的风格</translation>
    </message>
    <message>
        <source>Who runs it: every value written out, &quot;auto&quot; where the Hugging Face Trainer fills in, or as ms-swift takes it (--config-style)</source>
        <translation>由谁运行：写出所有的值，或由 Hugging Face Trainer 填写的地方写 &quot;auto&quot;，或采用 ms-swift 接受的形式 (--config-style)</translation>
    </message>
    <message>
        <source>St&amp;yle:</source>
        <translation>风格(&amp;Y)：</translation>
    </message>
    <message>
        <source>&amp;Copy</source>
        <translation>复制(&amp;C)</translation>
    </message>
    <message>
        <source>Copy the configuration</source>
        <translation>复制配置</translation>
    </message>
    <message>
        <source>&amp;Save…</source>
        <translation>保存(&amp;S)…</translation>
    </message>
    <message>
        <source>Save the configuration as a file (--emit)</source>
        <translation>把配置存为文件 (--emit)</translation>
    </message>
    <message>
        <source>Findings in the configuration</source>
        <translation>配置中发现的问题</translation>
    </message>
    <message>
        <source>No plan yet</source>
        <translation>尚无规划</translation>
    </message>
    <message>
        <source>%1 for %2</source>
        <translation>%1，用于 %2</translation>
    </message>
    <message>
        <source>%1 for %2, which does not fit</source>
        <translation>%1，用于 %2（放不下）</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>复制</translation>
    </message>
    <message>
        <source>Copy the command for %1</source>
        <translation>复制 %1 的命令</translation>
    </message>
    <message>
        <source>The command for %1 is copied</source>
        <translation>已复制 %1 的命令</translation>
    </message>
    <message>
        <source>Command for %1</source>
        <translation>%1 的命令</translation>
    </message>
    <message>
        <source>Only configurations of DeepSpeed are checked.</source>
        <translation>只检查 DeepSpeed 的配置。</translation>
    </message>
    <message>
        <source>Checked as zplan lint checks it: no findings.</source>
        <translation>已按 zplan lint 检查：没有发现问题。</translation>
    </message>
    <message numerus="yes">
        <source>%n finding(s) of zplan lint:</source>
        <translation>
            <numerusform>zplan lint 发现 %n 个问题：</numerusform>
        </translation>
    </message>
    <message>
        <source>%1 is copied</source>
        <translation>已复制 %1</translation>
    </message>
    <message>
        <source>%1 is saved</source>
        <translation>已保存 %1</translation>
    </message>
</context>
<context>
    <name>zplan::gui::CurveChart</name>
    <message>
        <source>Memory over the step</source>
        <translation>一步之内的显存</translation>
    </message>
</context>
<context>
    <name>zplan::gui::Documents</name>
    <message>
        <source>add %1</source>
        <translation>添加 %1</translation>
    </message>
</context>
<context>
    <name>zplan::gui::EditorPanel</name>
    <message>
        <source>Find an option</source>
        <translation>查找选项</translation>
    </message>
    <message>
        <source>Config</source>
        <translation>配置</translation>
    </message>
    <message>
        <source>There is no scenario.</source>
        <translation>没有方案。</translation>
    </message>
    <message>
        <source>A saved report, shown as it was: %1. Its options cannot be changed.</source>
        <translation>保存的报告，按原样显示：%1。它的选项不能更改。</translation>
    </message>
    <message>
        <source>without: %1</source>
        <translation>不能同时给出：%1</translation>
    </message>
    <message>
        <source>with: %1</source>
        <translation>须给出：%1</translation>
    </message>
    <message>
        <source>with %1: %2</source>
        <translation>须 %1 为：%2</translation>
    </message>
    <message>
        <source>Which options are shown</source>
        <translation>显示哪些选项</translation>
    </message>
    <message>
        <source>Common</source>
        <translation>常用</translation>
    </message>
    <message>
        <source>The options that most people use, as far as they apply, and those that are set</source>
        <translation>最常用的选项中有作用的，以及已设置的</translation>
    </message>
    <message>
        <source>Set</source>
        <translation>已设置</translation>
    </message>
    <message>
        <source>The options that this scenario sets</source>
        <translation>这个方案设置的选项</translation>
    </message>
    <message>
        <source>All options</source>
        <translation>所有选项</translation>
    </message>
    <message>
        <source>Every option; those that do not apply say why</source>
        <translation>所有选项；没有作用的说明原因</translation>
    </message>
    <message numerus="yes">
        <source>Set (%n)</source>
        <translation>
            <numerusform>已设置（%n）</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>zplan::gui::ExplainModel</name>
    <message>
        <source>Symbols</source>
        <translation>符号</translation>
    </message>
    <message>
        <source>Figure</source>
        <translation>数字</translation>
    </message>
    <message>
        <source>Value</source>
        <translation>值</translation>
    </message>
    <message>
        <source>Formula</source>
        <translation>公式</translation>
    </message>
    <message>
        <source>Source</source>
        <translation>来源</translation>
    </message>
</context>
<context>
    <name>zplan::gui::ExplainView</name>
    <message>
        <source>Search figures, formulas and sources</source>
        <translation>搜索数字、公式和来源</translation>
    </message>
    <message>
        <source>Search the explanation</source>
        <translation>搜索解释</translation>
    </message>
    <message>
        <source>Figures with their formulas</source>
        <translation>数字及其公式</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>复制</translation>
    </message>
    <message>
        <source>The figure that is selected</source>
        <translation>选中的数字</translation>
    </message>
    <message>
        <source>No plan yet</source>
        <translation>尚无规划</translation>
    </message>
    <message>
        <source>A report that was saved holds no formulas.</source>
        <translation>保存的报告不含公式。</translation>
    </message>
    <message>
        <source>%1: %2, first estimates</source>
        <translation>%1：%2，初步估计</translation>
    </message>
    <message>
        <source>%1: %2</source>
        <translation>%1：%2</translation>
    </message>
    <message>
        <source>Select a figure to see all of its formula.</source>
        <translation>选择一个数字，即可查看完整的公式。</translation>
    </message>
    <message>
        <source>Source: %1</source>
        <translation>来源：%1</translation>
    </message>
    <message>
        <source>How far off such figures were</source>
        <translation>这类数字的误差</translation>
    </message>
</context>
<context>
    <name>zplan::gui::FileEditor</name>
    <message>
        <source>Browse for a file</source>
        <translation>浏览选择文件</translation>
    </message>
</context>
<context>
    <name>zplan::gui::HelpWindow</name>
    <message>
        <source>Help</source>
        <translation>帮助</translation>
    </message>
    <message>
        <source>:/help/desktop.md</source>
        <comment>the page of this language</comment>
        <translation>:/help/desktop.zh_CN.md</translation>
    </message>
</context>
<context>
    <name>zplan::gui::KeptSession</name>
    <message>
        <source>The session is not kept: %1</source>
        <translation>会话没有保存下来：%1</translation>
    </message>
</context>
<context>
    <name>zplan::gui::MainWindow</name>
    <message>
        <source>Unsaved changes</source>
        <translation>未保存的更改</translation>
    </message>
    <message>
        <source>Scenarios (*.zplan);;All files (*)</source>
        <translation>方案 (*.zplan);;所有文件 (*)</translation>
    </message>
    <message>
        <source>%1: cannot be written; the session is not kept</source>
        <translation>%1：无法写入；会话没有保存下来</translation>
    </message>
    <message>
        <source>Scenarios</source>
        <translation>方案</translation>
    </message>
    <message>
        <source>A scenario is a question as it would be typed behind zplan. A tick puts it into the comparison; drag it to another place, press F2 to rename it.</source>
        <translation>方案就是在 zplan 后面输入的一个问题。勾选后参加比较；拖动可以移到别处，按 F2 重命名。</translation>
    </message>
    <message>
        <source>Options</source>
        <translation>选项</translation>
    </message>
    <message>
        <source>Comparison</source>
        <translation>比较</translation>
    </message>
    <message>
        <source>The session that was kept cannot be read: %1</source>
        <translation>无法读取上次保存的会话：%1</translation>
    </message>
    <message>
        <source>Save the changes to %1?</source>
        <translation>要保存对 %1 的更改吗？</translation>
    </message>
    <message>
        <source>%1: not a file of this machine</source>
        <translation>%1：不是本机上的文件</translation>
    </message>
    <message>
        <source>Open scenarios</source>
        <translation>打开方案</translation>
    </message>
    <message>
        <source>Add from a file</source>
        <translation>从文件添加</translation>
    </message>
    <message>
        <source>config.json, ds_config, scenarios, reports, measurements (*.json *.zplan *.log *.txt);;All files (*)</source>
        <translation>config.json、ds_config、方案、报告、测量数据 (*.json *.zplan *.log *.txt);;所有文件 (*)</translation>
    </message>
    <message>
        <source>Save scenarios</source>
        <translation>保存方案</translation>
    </message>
    <message>
        <source>There is no earlier session.</source>
        <translation>没有之前的会话。</translation>
    </message>
    <message>
        <source>zplan</source>
        <translation>zplan</translation>
    </message>
    <message>
        <source>%1 — zplan</source>
        <translation>%1 — zplan</translation>
    </message>
    <message>
        <source>&amp;File</source>
        <translation>文件(&amp;F)</translation>
    </message>
    <message>
        <source>&amp;New session</source>
        <translation>新建会话(&amp;N)</translation>
    </message>
    <message>
        <source>Begin with the example</source>
        <translation>从示例开始</translation>
    </message>
    <message>
        <source>&amp;Open…</source>
        <translation>打开(&amp;O)…</translation>
    </message>
    <message>
        <source>Open a file of scenarios</source>
        <translation>打开方案文件</translation>
    </message>
    <message>
        <source>Open &amp;recent</source>
        <translation>最近打开的文件(&amp;R)</translation>
    </message>
    <message>
        <source>Restore the earlier session</source>
        <translation>恢复之前的会话</translation>
    </message>
    <message>
        <source>What was there before this window was opened with something else</source>
        <translation>本窗口以其他内容打开之前的会话</translation>
    </message>
    <message>
        <source>&amp;Add from a file…</source>
        <translation>从文件添加(&amp;A)…</translation>
    </message>
    <message>
        <source>A config.json, a ds_config, scenarios, a saved report, measurements</source>
        <translation>config.json、ds_config、方案、保存的报告或测量数据</translation>
    </message>
    <message>
        <source>&amp;Save</source>
        <translation>保存(&amp;S)</translation>
    </message>
    <message>
        <source>Save the scenarios</source>
        <translation>保存各个方案</translation>
    </message>
    <message>
        <source>Save &amp;as…</source>
        <translation>另存为(&amp;A)…</translation>
    </message>
    <message>
        <source>Save the scenarios in another file</source>
        <translation>把各个方案存到另一个文件</translation>
    </message>
    <message>
        <source>PNG, SVG or PDF</source>
        <translation>PNG、SVG 或 PDF</translation>
    </message>
    <message>
        <source>CSV, Markdown or JSON</source>
        <translation>CSV、Markdown 或 JSON</translation>
    </message>
    <message>
        <source>What zplan prints for it: JSON, CSV or Markdown</source>
        <translation>zplan 对它打印的内容：JSON、CSV 或 Markdown</translation>
    </message>
    <message>
        <source>&amp;Print…</source>
        <translation>打印(&amp;P)…</translation>
    </message>
    <message>
        <source>Chart and comparison</source>
        <translation>图和比较</translation>
    </message>
    <message>
        <source>&amp;Quit</source>
        <translation>退出(&amp;Q)</translation>
    </message>
    <message>
        <source>Forget these</source>
        <translation>清除这些记录</translation>
    </message>
    <message>
        <source>&amp;Edit</source>
        <translation>编辑(&amp;E)</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>撤销</translation>
    </message>
    <message>
        <source>Redo</source>
        <translation>重做</translation>
    </message>
    <message>
        <source>&amp;Add a scenario</source>
        <translation>添加方案(&amp;A)</translation>
    </message>
    <message>
        <source>Add the example as a scenario</source>
        <translation>把示例添加为方案</translation>
    </message>
    <message>
        <source>&amp;Duplicate</source>
        <translation>复制一份(&amp;D)</translation>
    </message>
    <message>
        <source>A copy of the current scenario</source>
        <translation>当前方案的副本</translation>
    </message>
    <message>
        <source>&amp;Rename</source>
        <translation>重命名(&amp;R)</translation>
    </message>
    <message>
        <source>Rename the current scenario</source>
        <translation>重命名当前方案</translation>
    </message>
    <message>
        <source>D&amp;elete</source>
        <translation>删除(&amp;E)</translation>
    </message>
    <message>
        <source>Delete the current scenario</source>
        <translation>删除当前方案</translation>
    </message>
    <message>
        <source>Move &amp;up</source>
        <translation>上移(&amp;U)</translation>
    </message>
    <message>
        <source>Move the current scenario up</source>
        <translation>上移当前方案</translation>
    </message>
    <message>
        <source>Move do&amp;wn</source>
        <translation>下移(&amp;W)</translation>
    </message>
    <message>
        <source>Move the current scenario down</source>
        <translation>下移当前方案</translation>
    </message>
    <message>
        <source>Copy as &amp;table</source>
        <translation>复制为表格(&amp;T)</translation>
    </message>
    <message>
        <source>The comparison as text</source>
        <translation>比较的文本形式</translation>
    </message>
    <message>
        <source>Copy as command &amp;line</source>
        <translation>复制为命令行(&amp;L)</translation>
    </message>
    <message>
        <source>What to type for the current scenario</source>
        <translation>当前方案要输入的命令</translation>
    </message>
    <message>
        <source>&amp;Compare</source>
        <translation>比较(&amp;C)</translation>
    </message>
    <message>
        <source>&amp;Scenarios</source>
        <translation>方案(&amp;S)</translation>
    </message>
    <message>
        <source>S&amp;trategies of the current one</source>
        <translation>当前方案的策略(&amp;T)</translation>
    </message>
    <message>
        <source>&amp;Pin as baseline</source>
        <translation>固定为基准(&amp;P)</translation>
    </message>
    <message>
        <source>Differences are from the current scenario</source>
        <translation>差异相对于当前方案</translation>
    </message>
    <message>
        <source>&amp;Unpin</source>
        <translation>取消固定(&amp;U)</translation>
    </message>
    <message>
        <source>Differences are from the first that is compared</source>
        <translation>差异相对于第一个参加比较的</translation>
    </message>
    <message>
        <source>&amp;Differences only</source>
        <translation>只看差异(&amp;D)</translation>
    </message>
    <message>
        <source>&amp;View</source>
        <translation>视图(&amp;V)</translation>
    </message>
    <message>
        <source>&amp;Language</source>
        <translation>语言(&amp;L)</translation>
    </message>
    <message>
        <source>As the system</source>
        <translation>跟随系统</translation>
    </message>
    <message>
        <source>&amp;Help</source>
        <translation>帮助(&amp;H)</translation>
    </message>
    <message>
        <source>About what has the focus</source>
        <translation>关于当前有焦点的部分</translation>
    </message>
    <message>
        <source>&amp;Keys</source>
        <translation>快捷键(&amp;K)</translation>
    </message>
    <message>
        <source>All shortcuts</source>
        <translation>所有快捷键</translation>
    </message>
    <message>
        <source>&amp;About zplan</source>
        <translation>关于 zplan(&amp;A)</translation>
    </message>
    <message>
        <source>Markdown (*.md);;CSV (*.csv);;JSON (*.json);;Text (*.txt)</source>
        <translation>Markdown (*.md);;CSV (*.csv);;JSON (*.json);;文本 (*.txt)</translation>
    </message>
    <message>
        <source>%1: an unknown ending; accepted: .md, .csv, .json, .txt</source>
        <translation>%1：未知的文件扩展名；可用：.md、.csv、.json、.txt</translation>
    </message>
    <message>
        <source>Wrote %1</source>
        <translation>已写入 %1</translation>
    </message>
    <message>
        <source>Export the chart</source>
        <translation>导出图</translation>
    </message>
    <message>
        <source>Nothing is compared: tick a scenario.</source>
        <translation>没有参加比较的：请勾选一个方案。</translation>
    </message>
    <message>
        <source>Export the comparison</source>
        <translation>导出比较</translation>
    </message>
    <message>
        <source>There is no answer yet.</source>
        <translation>还没有结果。</translation>
    </message>
    <message>
        <source>Export the plan</source>
        <translation>导出规划</translation>
    </message>
    <message>
        <source>to the printer</source>
        <translation>打印机</translation>
    </message>
    <message>
        <source>Copied the table</source>
        <translation>已复制表格</translation>
    </message>
    <message>
        <source>%1 is a saved report: nothing was typed for it</source>
        <translation>%1 是保存的报告，没有对应的命令行</translation>
    </message>
    <message>
        <source>Copied the command line</source>
        <translation>已复制命令行</translation>
    </message>
    <message>
        <source>The language changes when the window is next opened.</source>
        <translation>下次打开窗口时切换语言。</translation>
    </message>
    <message>
        <source>Keys</source>
        <translation>快捷键</translation>
    </message>
    <message>
        <source>About zplan</source>
        <translation>关于 zplan</translation>
    </message>
    <message>
        <source>Verdict</source>
        <translation>结论</translation>
    </message>
    <message>
        <source>The &amp;chart…</source>
        <translation>图(&amp;C)…</translation>
    </message>
    <message>
        <source>The c&amp;omparison…</source>
        <translation>比较(&amp;O)…</translation>
    </message>
    <message>
        <source>The current &amp;plan…</source>
        <translation>当前规划(&amp;P)…</translation>
    </message>
    <message>
        <source>Its &amp;answer as a page…</source>
        <translation>结果存为网页(&amp;A)…</translation>
    </message>
    <message>
        <source>For a browser, as zplan --html</source>
        <translation>用浏览器打开，即 zplan --html</translation>
    </message>
    <message>
        <source>Its &amp;memory as a snapshot…</source>
        <translation>显存存为快照(&amp;M)…</translation>
    </message>
    <message>
        <source>For pytorch.org/memory_viz, as zplan --snapshot</source>
        <translation>用于 pytorch.org/memory_viz，即 zplan --snapshot</translation>
    </message>
    <message>
        <source>Its &amp;step as a trace…</source>
        <translation>一步存为时间线(&amp;S)…</translation>
    </message>
    <message>
        <source>For ui.perfetto.dev, as zplan --trace</source>
        <translation>用于 ui.perfetto.dev，即 zplan --trace</translation>
    </message>
    <message>
        <source>Export the memory as a snapshot</source>
        <translation>导出显存快照</translation>
    </message>
    <message>
        <source>Snapshots of PyTorch (*.pickle)</source>
        <translation>PyTorch 快照 (*.pickle)</translation>
    </message>
    <message>
        <source>Export the step as a trace</source>
        <translation>导出一步的时间线</translation>
    </message>
    <message>
        <source>Traces (*.json)</source>
        <translation>时间线 (*.json)</translation>
    </message>
    <message>
        <source>Export the answer as a page</source>
        <translation>导出结果网页</translation>
    </message>
    <message>
        <source>Pages (*.html)</source>
        <translation>网页 (*.html)</translation>
    </message>
    <message>
        <source>%1 is a saved report: it has figures and no steps</source>
        <translation>%1 是保存的报告：只有数字，没有步骤</translation>
    </message>
    <message>
        <source>E&amp;xport</source>
        <translation>导出(&amp;X)</translation>
    </message>
</context>
<context>
    <name>zplan::gui::MeasurementsDialog</name>
    <message>
        <source>Not modelled: %1</source>
        <translation>未建模：%1</translation>
    </message>
    <message>
        <source>Measurements</source>
        <translation>测量数据</translation>
    </message>
    <message>
        <source>Checking</source>
        <translation>正在检查</translation>
    </message>
    <message>
        <source>Problem</source>
        <translation>问题</translation>
    </message>
    <message>
        <source>Summary by kind and statistic</source>
        <translation>按种类和统计量汇总</translation>
    </message>
    <message>
        <source>Records: predicted, measured and error</source>
        <translation>记录：预测、实测和误差</translation>
    </message>
    <message>
        <source>Search records</source>
        <translation>搜索记录</translation>
    </message>
    <message>
        <source>&amp;Largest errors first</source>
        <translation>误差最大的在前(&amp;L)</translation>
    </message>
    <message>
        <source>&amp;Copy as Markdown</source>
        <translation>复制为 Markdown(&amp;C)</translation>
    </message>
    <message>
        <source>The check failed: %1</source>
        <translation>检查失败：%1</translation>
    </message>
    <message>
        <source>Kind</source>
        <translation>种类</translation>
    </message>
    <message>
        <source>Statistic</source>
        <translation>统计量</translation>
    </message>
    <message>
        <source>Records</source>
        <translation>记录数</translation>
    </message>
    <message>
        <source>Judged</source>
        <translation>已评判</translation>
    </message>
    <message>
        <source>Skipped</source>
        <translation>已跳过</translation>
    </message>
    <message>
        <source>Median error</source>
        <translation>误差中位数</translation>
    </message>
    <message>
        <source>9 in 10 within</source>
        <translation>九成误差不超过</translation>
    </message>
    <message>
        <source>Worst</source>
        <translation>最大误差</translation>
    </message>
    <message>
        <source>More than 5 % low</source>
        <translation>偏低超过 5 %</translation>
    </message>
    <message>
        <source>Equal</source>
        <translation>相等</translation>
    </message>
    <message>
        <source>Phase right</source>
        <translation>阶段正确</translation>
    </message>
    <message>
        <source>Run</source>
        <translation>运行</translation>
    </message>
    <message>
        <source>File</source>
        <translation>文件</translation>
    </message>
    <message>
        <source>Predicted</source>
        <translation>预测</translation>
    </message>
    <message>
        <source>Measured</source>
        <translation>实测</translation>
    </message>
    <message>
        <source>Error</source>
        <translation>误差</translation>
    </message>
    <message>
        <source>Fails: %1</source>
        <translation>不合格：%1</translation>
    </message>
</context>
<context>
    <name>zplan::gui::MessageBar</name>
    <message>
        <source>Message</source>
        <translation>消息</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>关闭</translation>
    </message>
    <message>
        <source>Close the message</source>
        <translation>关闭消息</translation>
    </message>
</context>
<context>
    <name>zplan::gui::MessageLine</name>
    <message>
        <source>Problem</source>
        <translation>问题</translation>
    </message>
    <message>
        <source>Remark</source>
        <translation>备注</translation>
    </message>
</context>
<context>
    <name>zplan::gui::NameTable</name>
    <message>
        <source>Model</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>Parameters</source>
        <translation>参数量</translation>
    </message>
    <message>
        <source>Active</source>
        <translation>激活参数量</translation>
    </message>
    <message>
        <source>Layers</source>
        <translation>层数</translation>
    </message>
    <message>
        <source>GPU</source>
        <translation>GPU</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>显存</translation>
    </message>
    <message>
        <source>Bandwidth</source>
        <translation>带宽</translation>
    </message>
    <message>
        <source>NVLink</source>
        <translation>NVLink</translation>
    </message>
    <message>
        <source>Cloud shape</source>
        <translation>实例规格</translation>
    </message>
    <message>
        <source>GPUs</source>
        <translation>GPU 数</translation>
    </message>
    <message>
        <source>Node type</source>
        <translation>节点类型</translation>
    </message>
    <message>
        <source>Connected by</source>
        <translation>连接方式</translation>
    </message>
    <message>
        <source>Host memory</source>
        <translation>主机内存</translation>
    </message>
    <message>
        <source>Network</source>
        <translation>网络</translation>
    </message>
    <message>
        <source>NICs</source>
        <translation>网卡</translation>
    </message>
    <message>
        <source>Per node</source>
        <translation>每节点</translation>
    </message>
    <message>
        <source>Latency</source>
        <translation>延迟</translation>
    </message>
</context>
<context>
    <name>zplan::gui::OptionField</name>
    <message>
        <source>%1: %2</source>
        <translation>%1：%2</translation>
    </message>
    <message>
        <source>Reset %1</source>
        <translation>重置“%1”</translation>
    </message>
    <message>
        <source>Back to the default</source>
        <translation>恢复默认值</translation>
    </message>
</context>
<context>
    <name>zplan::gui::Options</name>
    <message>
        <source>Model</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>Method</source>
        <translation>方法</translation>
    </message>
    <message>
        <source>LoRA rank</source>
        <translation>LoRA 秩</translation>
    </message>
    <message>
        <source>LoRA targets</source>
        <translation>LoRA 目标模块</translation>
    </message>
    <message>
        <source>Frozen parts</source>
        <translation>冻结的部分</translation>
    </message>
    <message>
        <source>Load as</source>
        <translation>加载类型</translation>
    </message>
    <message>
        <source>Every rank loads</source>
        <translation>每个进程都加载</translation>
    </message>
    <message>
        <source>Saved model</source>
        <translation>保存的模型</translation>
    </message>
    <message>
        <source>Evaluation batch</source>
        <translation>评估批大小</translation>
    </message>
    <message>
        <source>Logits are kept</source>
        <translation>保留 logits</translation>
    </message>
    <message>
        <source>Samples evaluated</source>
        <translation>评估样本数</translation>
    </message>
    <message>
        <source>Steps until moved</source>
        <translation>移到主机前的步数</translation>
    </message>
    <message>
        <source>Tokens generated</source>
        <translation>生成的词元数</translation>
    </message>
    <message>
        <source>Samples</source>
        <translation>样本数</translation>
    </message>
    <message>
        <source>Tokens</source>
        <translation>词元数</translation>
    </message>
    <message>
        <source>Epochs</source>
        <translation>轮数</translation>
    </message>
    <message>
        <source>Price of a GPU-hour</source>
        <translation>每 GPU 小时价格</translation>
    </message>
    <message>
        <source>Loading, evaluation, saving</source>
        <translation>加载、评估与保存</translation>
    </message>
    <message>
        <source>Time and cost</source>
        <translation>时间与费用</translation>
    </message>
    <message>
        <source>type that from_pretrained loads the weights in [the checkpoint&apos;s, or fp32 where the weights are the masters]</source>
        <translation>from_pretrained 的 dtype [检查点的类型；权重本身为主权重时为 fp32]</translation>
    </message>
    <message>
        <source>let every rank read the checkpoint at stage 3 (no zero.Init)</source>
        <translation>第 3 阶段每个进程都读取检查点：不用 zero.Init</translation>
    </message>
    <message>
        <source>save the weights gathered on one rank (full) or as every rank&apos;s shards [what the plan&apos;s config says]</source>
        <translation>权重收集到一个进程上，或每个进程保存自己的分片 [按方案的配置]</translation>
    </message>
    <message>
        <source>samples per GPU in an evaluation step [no evaluation]</source>
        <translation>评估时每个 GPU 每步的样本数 [不评估]</translation>
    </message>
    <message>
        <source>keep the logits of all samples, as the Trainer does with compute_metrics [losses alone]</source>
        <translation>给出 compute_metrics，Trainer 因而保留所有样本的 logits [只保留损失]</translation>
    </message>
    <message>
        <source>samples whose logits an evaluation keeps</source>
        <translation>保留 logits 的样本数</translation>
    </message>
    <message>
        <source>evaluation steps until kept logits move to the host [never before the end]</source>
        <translation>保留的 logits 移到主机前的评估步数 [直到结束]</translation>
    </message>
    <message>
        <source>tokens to generate after each prompt of --seq tokens [none]</source>
        <translation>每个长度为 --seq 的提示之后生成的词元数 [无]</translation>
    </message>
    <message>
        <source>samples of an epoch, from which the run&apos;s duration follows</source>
        <translation>一轮的样本数：训练需要多长时间</translation>
    </message>
    <message>
        <source>tokens of an epoch, in the place of --samples: 100B, 1e11</source>
        <translation>同上，以词元计，可写作 100B、1e11</translation>
    </message>
    <message>
        <source>number of epochs [1]</source>
        <translation>全部数据训练的次数 [1]</translation>
    </message>
    <message>
        <source>price of a GPU-hour in any currency, from which the run&apos;s cost follows; hardware compare takes one for all or X,Y,… in the order of the names</source>
        <translation>每个 GPU 每小时的价格，货币任意：训练的费用；在 hardware compare 中可为一个通用价格，或按名称顺序的 X,Y,…</translation>
    </message>
    <message>
        <source>Images per sample</source>
        <translation>每个样本的图片数</translation>
    </message>
    <message>
        <source>Image size</source>
        <translation>图片大小</translation>
    </message>
    <message>
        <source>Tokens per image</source>
        <translation>每张图片的 token 数</translation>
    </message>
    <message>
        <source>LoRA dropout</source>
        <translation>LoRA dropout</translation>
    </message>
    <message>
        <source>Prepared for k-bit</source>
        <translation>k-bit 训练准备</translation>
    </message>
    <message>
        <source>Quantization</source>
        <translation>量化</translation>
    </message>
    <message>
        <source>Stored as</source>
        <translation>存放类型</translation>
    </message>
    <message>
        <source>Adapters in memory</source>
        <translation>内存中的适配器</translation>
    </message>
    <message>
        <source>DoRA</source>
        <translation>DoRA</translation>
    </message>
    <message>
        <source>Trained copies</source>
        <translation>训练副本</translation>
    </message>
    <message>
        <source>One copy of tied ones</source>
        <translation>相同嵌入一个副本</translation>
    </message>
    <message>
        <source>Adapters in 16 bits</source>
        <translation>16 位适配器</translation>
    </message>
    <message>
        <source>Objective</source>
        <translation>训练目标</translation>
    </message>
    <message>
        <source>Reference model</source>
        <translation>参考模型</translation>
    </message>
    <message>
        <source>Completions per prompt</source>
        <translation>每个提示的回答数</translation>
    </message>
    <message>
        <source>Completion length</source>
        <translation>回答长度</translation>
    </message>
    <message>
        <source>Steps per generation</source>
        <translation>每次生成的步数</translation>
    </message>
    <message>
        <source>Passes per generation</source>
        <translation>每次生成的遍数</translation>
    </message>
    <message>
        <source>Trained tower</source>
        <translation>训练视觉塔</translation>
    </message>
    <message>
        <source>train tower and projector of an image-text model whole beside the adapters (ms-swift&apos;s lora_llm)</source>
        <translation>在适配器之外，完整训练图文模型的视觉塔和投影层（ms-swift 的 lora_llm）</translation>
    </message>
    <message>
        <source>Trained layers</source>
        <translation>训练的层</translation>
    </message>
    <message>
        <source>layers that train while all else is frozen in the type that computes: numbers from 0, the last or first N, or the last of each of N groups [all, and the rest of the model]</source>
        <translation>要训练的层，其余全部冻结，保持计算所用的类型：从 0 起的编号、最后或最前 N 层，或 N 组中每组的最后一层 [所有层及模型其余部分]</translation>
    </message>
    <message>
        <source>Added blocks</source>
        <translation>添加的层</translation>
    </message>
    <message>
        <source>layers that are added as copies, one behind each of N groups, and train alone (LLaMA Pro) [none]</source>
        <translation>在 N 组层的每组之后各加一层副本，只训练这些层（LLaMA Pro）[无]</translation>
    </message>
    <message>
        <source>Teacher</source>
        <translation>teacher 模型</translation>
    </message>
    <message>
        <source>frozen model whose probabilities are learnt under gkd, named as in --model</source>
        <translation>gkd 下给出概率的冻结模型，名称同 --model</translation>
    </message>
    <message>
        <source>Divergence</source>
        <translation>divergence</translation>
    </message>
    <message>
        <source>divergence of student and teacher under gkd: Jensen-Shannon&apos;s of their mixture (0 &lt; beta &lt; 1), or Kullback-Leibler&apos;s forward (beta 0) or reverse (beta 1) [mixture]</source>
        <translation>gkd 下student与teacher的divergence：混合的 Jensen-Shannon divergence（0 &lt; beta &lt; 1），或正向（beta 0）、反向（beta 1）的 Kullback-Leibler divergence [mixture]</translation>
    </message>
    <message>
        <source>Teacher&apos;s tokens</source>
        <translation>teacher的词元</translation>
    </message>
    <message>
        <source>most probable tokens of the teacher that gkd&apos;s loss is of (gkd_logits_topk) [the whole vocabulary]</source>
        <translation>gkd 的损失所用的teacher最可能的词元数（gkd_logits_topk）[整个词表]</translation>
    </message>
    <message>
        <source>Labels&apos; loss</source>
        <translation>标签损失</translation>
    </message>
    <message>
        <source>add the cross-entropy of the labels to gkd&apos;s loss (ms-swift&apos;s sft_alpha)</source>
        <translation>在 gkd 的损失上加标签的交叉熵（ms-swift 的 sft_alpha）</translation>
    </message>
    <message>
        <source>What generates</source>
        <translation>生成方式</translation>
    </message>
    <message>
        <source>vLLM&apos;s memory share</source>
        <translation>vLLM 显存占比</translation>
    </message>
    <message>
        <source>vLLM&apos;s sleep level</source>
        <translation>vLLM 休眠级别</translation>
    </message>
    <message>
        <source>vLLM&apos;s tensor parallel</source>
        <translation>vLLM 张量并行</translation>
    </message>
    <message>
        <source>Value model</source>
        <translation>价值模型</translation>
    </message>
    <message>
        <source>Reward model</source>
        <translation>奖励模型</translation>
    </message>
    <message>
        <source>Mini-batches</source>
        <translation>小批数</translation>
    </message>
    <message>
        <source>Generated at once</source>
        <translation>一次生成数</translation>
    </message>
    <message>
        <source>GPUs</source>
        <translation>GPU 数量</translation>
    </message>
    <message>
        <source>GPU type</source>
        <translation>GPU 型号</translation>
    </message>
    <message>
        <source>Memory (GiB)</source>
        <translation>显存 (GiB)</translation>
    </message>
    <message>
        <source>Nodes</source>
        <translation>节点数</translation>
    </message>
    <message>
        <source>Cloud shape</source>
        <translation>实例规格</translation>
    </message>
    <message>
        <source>Node type</source>
        <translation>节点类型</translation>
    </message>
    <message>
        <source>Network</source>
        <translation>网络</translation>
    </message>
    <message>
        <source>Host memory (GiB)</source>
        <translation>主机内存 (GiB)</translation>
    </message>
    <message>
        <source>Headroom (%)</source>
        <translation>余量 (%)</translation>
    </message>
    <message>
        <source>ZeRO stages</source>
        <translation>ZeRO 阶段</translation>
    </message>
    <message>
        <source>Expert parallel</source>
        <translation>专家并行</translation>
    </message>
    <message>
        <source>Replicas</source>
        <translation>副本</translation>
    </message>
    <message>
        <source>copies of what FSDP2 shards (hybrid sharding) to consider, such as 1,2 [1]</source>
        <translation>FSDP2 分片的副本数（混合分片），如 1,2 [1]</translation>
    </message>
    <message>
        <source>Routing of tokens</source>
        <translation>路由</translation>
    </message>
    <message>
        <source>Sequence parallel</source>
        <translation>序列并行</translation>
    </message>
    <message>
        <source>Context parallel</source>
        <translation>上下文并行</translation>
    </message>
    <message>
        <source>Ring rotation</source>
        <translation>环形传递方式</translation>
    </message>
    <message>
        <source>Activations on the host</source>
        <translation>激活值放在主机内存</translation>
    </message>
    <message>
        <source>Tiled MLP</source>
        <translation>分块 MLP</translation>
    </message>
    <message>
        <source>Tiled loss</source>
        <translation>分块损失</translation>
    </message>
    <message>
        <source>expert-parallel degrees to consider (DeepSpeed AutoEP, Megatron-Core, torchtitan), such as 1,8 [1; under the latter two 1, a node and all GPUs of a stage]</source>
        <translation>混合专家模型的专家并行度（DeepSpeed AutoEP、Megatron-Core、torchtitan），如 1,8 [1；Megatron-Core 和 torchtitan 下为 1、一个节点和一个阶段的全部 GPU]</translation>
    </message>
    <message>
        <source>Expert tensor parallel</source>
        <translation>专家内张量并行</translation>
    </message>
    <message>
        <source>degrees of tensor parallelism within experts to consider (Megatron-Core), such as 1,2 [1]</source>
        <translation>专家内部的张量并行度（Megatron-Core），如 1,2 [1]</translation>
    </message>
    <message>
        <source>rows of the first rank of an expert-parallel group, as a multiple S of the mean [balanced]</source>
        <translation>专家并行组中第一个 rank 的行数，为平均值的 S 倍 [balanced]</translation>
    </message>
    <message>
        <source>sequence-parallel degrees to consider (Ulysses: of DeepSpeed, or of ms-swift), such as 1,8 [1]</source>
        <translation>序列并行度（Ulysses：DeepSpeed 或 ms-swift），如 1,8 [1]</translation>
    </message>
    <message>
        <source>context-parallel degrees to consider (ring attention with FSDP2), such as 1,8 [1]</source>
        <translation>上下文并行度（FSDP2 的环形注意力），如 1,8 [1]</translation>
    </message>
    <message>
        <source>collective that passes keys and values around the ring [allgather]</source>
        <translation>环形注意力如何传递键和值 [allgather]</translation>
    </message>
    <message>
        <source>keep in host memory the inputs of checkpointed layers, by ArcticTraining&apos;s patch (alst), DeepSpeed&apos;s hooks or Unsloth; or all that autograd saves, by hooks of trl or torchtune (activation offloading), with and without checkpointing [none]</source>
        <translation>放在主机内存的内容：检查点层的输入（ArcticTraining 的补丁 alst、DeepSpeed 的钩子或 Unsloth），或 autograd 保存的全部张量（trl 或 torchtune 的激活卸载，有无检查点均可）[none]</translation>
    </message>
    <message>
        <source>slices of the tokens that the feed-forward layers run over (ALST) [whole]</source>
        <translation>前馈层按 N 段词元逐段计算（ALST）[整体]</translation>
    </message>
    <message>
        <source>slices of the tokens that head and loss run over (ALST) [whole]</source>
        <translation>输出层与损失按 N 段词元逐段计算（ALST）[整体]</translation>
    </message>
    <message>
        <source>Pipeline parallel</source>
        <translation>阶段并行</translation>
    </message>
    <message>
        <source>Virtual stages</source>
        <translation>每阶段的层块</translation>
    </message>
    <message>
        <source>virtual pipeline stages to consider (Megatron-Core, torchtitan): chunks of layers on each pipeline stage, such as 1,2 [1]</source>
        <translation>每阶段的层块数 (Megatron-Core, torchtitan)，如 1,2 [1]</translation>
    </message>
    <message>
        <source>Megatron-Core&apos;s arguments</source>
        <translation>Megatron-Core 的参数</translation>
    </message>
    <message>
        <source>pipeline stages to consider (Megatron-Core, torchtitan), such as 1,4 [1 and powers of two that divide layers]</source>
        <translation>阶段并行度 (Megatron-Core, torchtitan)，如 1,4 [1 和能整除层数的 2 的幂]</translation>
    </message>
    <message>
        <source>arguments of Megatron-Core, by its own names without dashes: NAME, or NAME=VALUE; none: its own defaults (docs/megatron.md) [those of its recipes]</source>
        <translation>Megatron-Core 的参数，按它自己的名称，不带连字符：名称，或 名称=值；none：它自己的默认值（docs/megatron.md）[推荐的写法]</translation>
    </message>
    <message>
        <source>Tensor parallel</source>
        <translation>张量并行</translation>
    </message>
    <message>
        <source>Offload</source>
        <translation>卸载</translation>
    </message>
    <message>
        <source>Bucket sizes</source>
        <translation>桶大小</translation>
    </message>
    <message>
        <source>Trainer&apos;s config</source>
        <translation>训练器配置</translation>
    </message>
    <message>
        <source>DeepSpeed config</source>
        <translation>DeepSpeed 配置</translation>
    </message>
    <message>
        <source>Framework</source>
        <translation>框架</translation>
    </message>
    <message>
        <source>DeepSpeed release</source>
        <translation>DeepSpeed 版本</translation>
    </message>
    <message>
        <source>Precision</source>
        <translation>精度</translation>
    </message>
    <message>
        <source>Optimizer</source>
        <translation>优化器</translation>
    </message>
    <message>
        <source>No fp32 master weights</source>
        <translation>无 fp32 主权重</translation>
    </message>
    <message>
        <source>Checkpointing</source>
        <translation>激活检查点</translation>
    </message>
    <message>
        <source>Attention</source>
        <translation>注意力</translation>
    </message>
    <message>
        <source>Fused loss</source>
        <translation>融合损失</translation>
    </message>
    <message>
        <source>Fused head</source>
        <translation>融合输出头</translation>
    </message>
    <message>
        <source>torch.compile</source>
        <translation>torch.compile</translation>
    </message>
    <message>
        <source>Float8 products</source>
        <translation>float8 计算</translation>
    </message>
    <message>
        <source>Cut cross-entropy</source>
        <translation>不存 logits 的交叉熵</translation>
    </message>
    <message>
        <source>What the loss shifts</source>
        <translation>损失移位对象</translation>
    </message>
    <message>
        <source>Kernels of layers</source>
        <translation>层的内核</translation>
    </message>
    <message>
        <source>Trainer&apos;s defaults</source>
        <translation>训练器默认值</translation>
    </message>
    <message>
        <source>Sample lengths</source>
        <translation>样本长度</translation>
    </message>
    <message>
        <source>Batching</source>
        <translation>组批方式</translation>
    </message>
    <message>
        <source>Loss in slices</source>
        <translation>分块损失</translation>
    </message>
    <message>
        <source>Head in slices</source>
        <translation>分块输出头</translation>
    </message>
    <message>
        <source>Library of layers</source>
        <translation>层的实现库</translation>
    </message>
    <message>
        <source>Expandable segments</source>
        <translation>可扩展段</translation>
    </message>
    <message>
        <source>Sequence length</source>
        <translation>序列长度</translation>
    </message>
    <message>
        <source>Micro-batch</source>
        <translation>微批大小</translation>
    </message>
    <message>
        <source>Gradient accumulation</source>
        <translation>梯度累积</translation>
    </message>
    <message>
        <source>Global batch</source>
        <translation>全局批大小</translation>
    </message>
    <message>
        <source>NVMe path</source>
        <translation>NVMe 路径</translation>
    </message>
    <message>
        <source>Config style</source>
        <translation>配置风格</translation>
    </message>
    <message>
        <source>Unit of memory</source>
        <translation>容量单位</translation>
    </message>
    <message>
        <source>Cluster</source>
        <translation>集群</translation>
    </message>
    <message>
        <source>Strategies</source>
        <translation>策略</translation>
    </message>
    <message>
        <source>Training</source>
        <translation>训练</translation>
    </message>
    <message>
        <source>Batch</source>
        <translation>批</translation>
    </message>
    <message>
        <source>model to train: catalogue name, size (8B), config.json, folder that holds one, or Hub id</source>
        <translation>目录中的名称、规模 (8B)、config.json、含有它的文件夹，或 Hub id</translation>
    </message>
    <message>
        <source>train all weights (full), adapters (lora), or adapters on packed weights (qlora) [full]</source>
        <translation>训练哪些参数 [full]</translation>
    </message>
    <message>
        <source>rank of the adapters [16]</source>
        <translation>适配器的秩 [16]</translation>
    </message>
    <message>
        <source>modules that get adapters: all-linear, q_v, or names such as q_proj,v_proj [all-linear]</source>
        <translation>加适配器的模块：all-linear、q_v，或 q_proj,v_proj 这样的名称 [all-linear]</translation>
    </message>
    <message>
        <source>dropout of the adapters&apos; inputs, from 0 to 1 [0]</source>
        <translation>适配器输入中随机置零的比例：0 到 1 [0]</translation>
    </message>
    <message>
        <source>parts of an image-text model that are not trained: vision, projector [none]</source>
        <translation>图文模型中不训练的部分：vision（视觉塔）、projector（投影层）</translation>
    </message>
    <message>
        <source>images in each sample of an image-text model [none: text alone]</source>
        <translation>图文模型每个样本中的图片数 [无：只有文本]</translation>
    </message>
    <message>
        <source>width and height of each image in pixels, before the processor resizes or cuts it</source>
        <translation>图片在处理器缩放或切分之前的像素大小</translation>
    </message>
    <message>
        <source>tokens of each image in the sequence [by the processor&apos;s own rule]</source>
        <translation>每张图片在序列中的 token 数 [按处理器自己的规则]</translation>
    </message>
    <message>
        <source>format of the frozen weights under qlora: nf4, nf4-double, int8, gptq-int4, gptq-int8, awq, hqq, torchao-int8; torchao-int4 and mxfp4 cannot train adapters [nf4]</source>
        <translation>qlora 下冻结权重的量化：nf4、nf4-double、int8、gptq-int4、gptq-int8、awq、hqq、torchao-int8 [nf4]；torchao-int4 与 mxfp4 无法训练，会说明原因</translation>
    </message>
    <message>
        <source>type that stores nf4&apos;s values: uint8, or bf16, fp16, fp32, which FSDP2 and ZeRO-3 can shard [uint8]</source>
        <translation>nf4 值的存放类型：uint8，或可由 FSDP2 与 ZeRO-3 分片的 bf16、fp16、fp32 [uint8]</translation>
    </message>
    <message>
        <source>run peft&apos;s prepare_model_for_kbit_training, which keeps embeddings, head and norms in fp32</source>
        <translation>qlora 经 peft 的 prepare_model_for_kbit_training：嵌入、输出层和归一化为 fp32</translation>
    </message>
    <message>
        <source>adapters in memory (peft&apos;s add_adapter); one trains, the others are frozen [1]</source>
        <translation>内存中的适配器数（peft 的 add_adapter），其中一个训练，其余冻结 [1]</translation>
    </message>
    <message>
        <source>train adapters with magnitudes (DoRA)</source>
        <translation>带模长的适配器（DoRA）</translation>
    </message>
    <message>
        <source>modules trained as whole copies beside the adapters: embed_tokens, lm_head [none]</source>
        <translation>与适配器一同训练的副本：embed_tokens、lm_head</translation>
    </message>
    <message>
        <source>keep one copy of tied embeddings (peft&apos;s ensure_weight_tying)</source>
        <translation>相同的嵌入只用一个副本（peft 的 ensure_weight_tying）</translation>
    </message>
    <message>
        <source>keep adapters in the weights&apos; type (peft&apos;s autocast_adapter_dtype=False)</source>
        <translation>适配器与权重同类型（peft 的 autocast_adapter_dtype=False）</translation>
    </message>
    <message>
        <source>training objective: next tokens (sft), pairs of answers (dpo, orpo, simpo, reward), single answers (kto), generated completions (grpo; ppo, which trains a value model too), a teacher&apos;s probabilities (gkd) [sft]</source>
        <translation>训练目标：下一个词元、成对回答（dpo、orpo、simpo、reward）、单个回答（kto）、对自行生成的回答的奖励（grpo；ppo 同时训练价值模型）或teacher 模型的概率（gkd）[sft]</translation>
    </message>
    <message>
        <source>reference model of dpo, kto, grpo and ppo: copy, adapters-off, adapter (a frozen copy of the adapters), precomputed, none (grpo); gkd&apos;s teacher: copy (--teacher), adapters-off (the student), none (on a server) [adapters-off, without adapters copy; grpo: none; gkd: copy]</source>
        <translation>dpo、kto、grpo 和 ppo 的参考：copy、adapters-off、adapter（适配器的冻结副本）、precomputed、none（grpo）；gkd 的teacher：copy（--teacher）、adapters-off（模型自身）、none（server）[adapters-off，无适配器时 copy；grpo：none；gkd：copy]</translation>
    </message>
    <message>
        <source>completions that grpo generates for each prompt [8]</source>
        <translation>grpo 下每个提示的回答数 [8]</translation>
    </message>
    <message>
        <source>tokens of --seq that grpo, ppo and gkd generate; the others are the prompt [half of --seq; gkd: nothing is generated]</source>
        <translation>grpo、ppo 和 gkd 下 --seq 中生成的词元数；其余为提示 [一半；gkd：不生成]</translation>
    </message>
    <message>
        <source>micro-steps that grpo and gkd train on one generation [those of the fewest optimizer steps that hold whole groups; gkd: 1]</source>
        <translation>grpo 和 gkd 下一次生成供给的微步数 [容纳完整分组的最少优化器步；gkd：1]</translation>
    </message>
    <message>
        <source>passes over each generation (num_iterations; num_ppo_epochs) [1; ppo: 4]</source>
        <translation>对生成内容训练的遍数（num_iterations；num_ppo_epochs）[1；ppo：4]</translation>
    </message>
    <message>
        <source>engine that generates: vLLM on the training GPUs (colocate), vLLM on GPUs of its own (server), or the trainer (trainer) [colocate; ppo, gkd: trainer]</source>
        <translation>由谁生成：与各进程同卡的 vLLM（colocate）、独立 GPU 上的 vLLM（server）或训练器自身（trainer）[colocate；ppo、gkd：trainer]</translation>
    </message>
    <message>
        <source>share of each GPU&apos;s memory that colocated vLLM uses (vllm_gpu_memory_utilization) [0.3]</source>
        <translation>同卡 vLLM 占每张 GPU 显存的比例（vllm_gpu_memory_utilization）[0.3]</translation>
    </message>
    <message>
        <source>what colocated vLLM keeps during training: everything (0), its weights in host memory (1), nothing (2) [0]</source>
        <translation>训练时同卡 vLLM 保留全部、仅在主机保留权重，或不保留 [0]</translation>
    </message>
    <message>
        <source>tensor-parallel degree of vLLM&apos;s model (vllm_tensor_parallel_size) [1]</source>
        <translation>切分 vLLM 模型的 GPU 数（vllm_tensor_parallel_size）[1]</translation>
    </message>
    <message>
        <source>model that predicts values under ppo and trains beside the policy, named as in --model [the policy&apos;s shape]</source>
        <translation>ppo 下与策略一同训练、预测价值的模型：同 --model [与策略同形]</translation>
    </message>
    <message>
        <source>frozen model that gives rewards under ppo, named as in --model [the policy&apos;s shape]</source>
        <translation>ppo 下给出奖励的冻结模型：同 --model [与策略同形]</translation>
    </message>
    <message>
        <source>parts of a generation under ppo, each of --grad-accum micro-steps (num_mini_batches) [1]</source>
        <translation>ppo 生成内容分成的份数，每份含 --grad-accum 的完整微步（num_mini_batches）[1]</translation>
    </message>
    <message>
        <source>samples that a GPU generates and scores at once under ppo (local_rollout_forward_batch_size) [64]</source>
        <translation>ppo 在每张 GPU 上一次生成并评分的样本数（local_rollout_forward_batch_size）[64]</translation>
    </message>
    <message>
        <source>number of GPUs [1]</source>
        <translation>GPU 总数 [1]</translation>
    </message>
    <message>
        <source>GPU profile; zplan hardware lists them [a generic GPU]</source>
        <translation>硬件档案：用 zplan hardware 列出 [通用卡]</translation>
    </message>
    <message>
        <source>cloud shape such as p5.48xlarge, with its GPUs, links, host memory and disks; zplan hardware instances lists them [none]</source>
        <translation>实例规格，如 p5.48xlarge（用 zplan hardware instances 列出）：GPU、连接、主机内存、磁盘 [无]</translation>
    </message>
    <message>
        <source>memory per GPU in GiB as nvidia-smi reports it; replaces the profile&apos;s</source>
        <translation>每块 GPU 的显存，以 GiB 计，按 nvidia-smi 所报；优先于硬件档案中的值</translation>
    </message>
    <message>
        <source>nodes that hold the GPUs [1]</source>
        <translation>GPU 分布在多少个节点上 [1]</translation>
    </message>
    <message>
        <source>how the GPUs of a node are connected: nvswitch, pcie, … [usual for the GPU]</source>
        <translation>节点内 GPU 的连接方式：nvswitch、pcie、… [该卡的常见配置]</translation>
    </message>
    <message>
        <source>network between nodes: 8x400g, 100g, … [usual for the GPU]</source>
        <translation>节点之间的网络：8x400g、100g、… [该卡的常见配置]</translation>
    </message>
    <message>
        <source>PCIe generation and lanes of each GPU&apos;s slot, such as 4x8 (nvidia-smi -q) [the GPU&apos;s generation, 16 lanes]</source>
        <translation>每个 GPU 插槽的 PCIe 连接，例如 4x8（nvidia-smi -q）[GPU 自身的代数，16 通道]</translation>
    </message>
    <message>
        <source>longest path between two GPUs of a node, as nvidia-smi topo -m names it [usual for the node type]</source>
        <translation>节点内两个 GPU 之间最长的路径，如 nvidia-smi topo -m 所示 [常见配置]</translation>
    </message>
    <message>
        <source>host threads of each process (OMP_NUM_THREADS), which run offloaded optimizers [its share of the cores]</source>
        <translation>每个进程在主机上的线程数 (OMP_NUM_THREADS)，用于卸载的优化器 [所分得的核心数]</translation>
    </message>
    <message>
        <source>rated memory bandwidth of a node&apos;s processors in GB/s [usual for the node type]</source>
        <translation>节点处理器的额定内存带宽 [该节点类型的常见配置]</translation>
    </message>
    <message>
        <source>rate in GB/s at which a node&apos;s drives read and write, for offload to NVMe [3]</source>
        <translation>节点的磁盘读或写的速度，用于卸载到 NVMe [3]</translation>
    </message>
    <message>
        <source>PCIe slots</source>
        <translation>PCIe 插槽</translation>
    </message>
    <message>
        <source>Way between GPUs</source>
        <translation>GPU 之间的路径</translation>
    </message>
    <message>
        <source>Threads of a process</source>
        <translation>每个进程的线程</translation>
    </message>
    <message>
        <source>Host bandwidth (GB/s)</source>
        <translation>主机内存带宽 (GB/s)</translation>
    </message>
    <message>
        <source>Disk bandwidth (GB/s)</source>
        <translation>磁盘带宽 (GB/s)</translation>
    </message>
    <message>
        <source>host memory per node in GiB [usual for the node type]</source>
        <translation>每个节点的主机内存，以 GiB 计 [该节点类型的常见配置]</translation>
    </message>
    <message>
        <source>share of each GPU to leave free, in percent [10]</source>
        <translation>每块卡要留空的比例，以百分数计 [10]</translation>
    </message>
    <message>
        <source>ZeRO stages to consider, such as 2,3 [0,1,2,3]</source>
        <translation>要考虑的 ZeRO 阶段，如 2,3 [0,1,2,3]</translation>
    </message>
    <message>
        <source>tensor-parallel degrees to consider, such as 1,4 [1 and powers of two up to a node]</source>
        <translation>张量并行度，如 1,4 [1 和不超过一个节点的 2 的幂]</translation>
    </message>
    <message>
        <source>states to offload, each an alternative: none, optimizer, all, … [none,optimizer,all]</source>
        <translation>优化器状态和参数卸载哪些：none、optimizer、all、… [none,optimizer,all]</translation>
    </message>
    <message>
        <source>bucket sizes: DeepSpeed&apos;s defaults, or HF&apos;s for &quot;auto&quot; [hf-auto]</source>
        <translation>桶大小：DeepSpeed 的默认值，或 HF 对 &quot;auto&quot; 的取值 [hf-auto]</translation>
    </message>
    <message>
        <source>DeepSpeed config to plan exactly; options fill what it leaves open</source>
        <translation>完全按这份 DeepSpeed 配置规划；其中未定的由选项补足</translation>
    </message>
    <message>
        <source>framework that shards the model: deepspeed, fsdp (FSDP2), torch (DDP, or one GPU), megatron (Megatron-Core), torchtitan; search takes several, separated by commas [deepspeed]</source>
        <translation>按谁的切分方式规划：deepspeed、fsdp (FSDP2)、torch（DDP 或单块 GPU）、megatron (Megatron-Core)、torchtitan；搜索可用多种，以“,”分开 [deepspeed]</translation>
    </message>
    <message>
        <source>Pipeline schedule</source>
        <translation>阶段的时间顺序</translation>
    </message>
    <message>
        <source>schedule of the pipeline&apos;s stages (torchtitan), by the name of torch&apos;s class [1F1B]</source>
        <translation>各阶段的时间顺序 (torchtitan)，用 torch 的类名 [1F1B]</translation>
    </message>
    <message>
        <source>torchtitan&apos;s settings</source>
        <translation>torchtitan 的设置</translation>
    </message>
    <message>
        <source>settings of torchtitan, by the last part of its own names: NAME, or NAME=VALUE; none: its own defaults (docs/torchtitan.md) [none]</source>
        <translation>torchtitan 的设置，按其名称的最后一段：NAME 或 NAME=VALUE；none 为其默认值 (docs/torchtitan.md) [none]</translation>
    </message>
    <message>
        <source>DeepSpeed release that the config is for: 0.16 to 0.19, or one such as 0.18.3 [0.19]</source>
        <translation>ds_config 所针对的版本：0.16 到 0.19，或 0.18.3 这样的具体版本 [0.19]</translation>
    </message>
    <message>
        <source>type that the model computes in [bf16]</source>
        <translation>模型计算所用的数据类型 [bf16]</translation>
    </message>
    <message>
        <source>optimizer: adamw, adamw8bit, adamw4bit, adamw32bit, paged_adamw8bit, paged_adamw32bit, sgd, sgd-momentum, adafactor, lion, lion8bit, lion32bit, paged_lion8bit, paged_lion32bit, muon [adamw]</source>
        <translation>优化器：adamw、adamw8bit、adamw4bit、adamw32bit、paged_adamw8bit、paged_adamw32bit、sgd、sgd-momentum、adafactor、lion、lion8bit、lion32bit、paged_lion8bit、paged_lion32bit、muon [adamw]</translation>
    </message>
    <message>
        <source>keep no fp32 copy of 16-bit weights</source>
        <translation>不保留 16 位权重的 fp32 副本</translation>
    </message>
    <message>
        <source>Optimizer&apos;s kernel</source>
        <translation>优化器的内核</translation>
    </message>
    <message>
        <source>how torch&apos;s AdamW updates: one kernel over all parameters (fused), lists with temporaries of all at once (foreach), one parameter after the other (single); DeepSpeed&apos;s FusedAdam (deepspeed-fused) [fused]</source>
        <translation>torch 的 AdamW 如何更新：一个内核处理所有参数（fused）、按列表处理并同时持有全部临时量（foreach）、逐个参数（single）；DeepSpeed 的 FusedAdam（deepspeed-fused）[fused]</translation>
    </message>
    <message>
        <source>Optimizer in the backward</source>
        <translation>反向时更新</translation>
    </message>
    <message>
        <source>update each parameter as soon as its gradient is there, and free that</source>
        <translation>每算出一个梯度，就更新该参数，并释放梯度</translation>
    </message>
    <message>
        <source>activations that the backward pass computes again [full]</source>
        <translation>反向计算时重新计算的激活（激活检查点）[full]</translation>
    </message>
    <message>
        <source>attention kernel [flash]</source>
        <translation>注意力内核 [flash]</translation>
    </message>
    <message>
        <source>use a fused or chunked cross-entropy (Liger and the like), which never holds all logits</source>
        <translation>融合或分块的交叉熵（Liger 等）：不生成完整的 logits</translation>
    </message>
    <message>
        <source>configs of axolotl, LLaMA-Factory, TRL, torchtune, torchtitan, ms-swift, accelerate or TrainingArguments, read as options; options given beside them win</source>
        <translation>axolotl、LLaMA-Factory、TRL、torchtune、torchtitan、ms-swift、accelerate 的配置或 TrainingArguments，按选项读取；另行给出的选项优先</translation>
    </message>
    <message>
        <source>trainers whose defaults hold for options that are not given: trl, transformers, swift, unsloth, llama-factory, axolotl, torchtune, litgpt; with a release as in trl@1.16 [none]</source>
        <translation>用其默认值补全未给出的选项：trl、transformers、swift、unsloth、llama-factory、axolotl、torchtune、litgpt；可带版本，如 trl@1.16 [无]</translation>
    </message>
    <message>
        <source>use TRL&apos;s head without logits, which computes log-probabilities by tiles, and again in the backward</source>
        <translation>TRL 的输出头不生成 logits：按块计算对数概率，反向时重新计算</translation>
    </message>
    <message>
        <source>what torch.compile compiles: each decoder layer (torchtune, torchtitan), or the whole model with head and loss (TrainingArguments(torch_compile=True)) [none]</source>
        <translation>torch.compile 的对象：每一层（torchtune、torchtitan），或整个模型连同输出头和损失（TrainingArguments(torch_compile=True)）[none]</translation>
    </message>
    <message>
        <source>multiply in 8 bits in the layers&apos; linear modules (torchao), operands scaled as a whole or by rows; tensorwise-gather: FSDP2 gathers weights in 8 bits, too [none]</source>
        <translation>各层的 nn.Linear 以 8 位计算（torchao），输入按整个张量或按行缩放；tensorwise-gather：FSDP2 也以 8 位收集权重 [none]</translation>
    </message>
    <message>
        <source>use Apple&apos;s cut cross-entropy, which keeps logits in the multiprocessors, forward and backward</source>
        <translation>使用 Apple 的交叉熵，前向和反向都不在显存中存 logits</translation>
    </message>
    <message>
        <source>what the loss shifts by one: the labels (transformers since 4.49), or a copy of the logits (before) [labels]</source>
        <translation>损失移位的对象：自 transformers 4.49 起为标签；之前为 logits 的副本 [labels]</translation>
    </message>
    <message>
        <source>kernels of the layers: PyTorch&apos;s (torch), Liger-Kernel&apos;s norms, rotations and gated activations (liger), flash-linear-attention&apos;s gated delta rule (fla) [torch]</source>
        <translation>PyTorch 的算子；Liger-Kernel 的归一化、旋转位置和门控激活；flash-linear-attention 的 gated delta rule [torch]</translation>
    </message>
    <message>
        <source>lengths of the samples in tokens: a file with one a line, or a length and how many have it; or mean, standard deviation and limit [all as --seq]</source>
        <translation>数据集样本的词元数：每行一个，或长度及其样本数；或其均值、标准差和上限 [均同 --seq]</translation>
    </message>
    <message>
        <source>how samples of different lengths are batched: padded to the longest, grouped by length, or packed into full rows [padded]</source>
        <translation>与 --lengths 一起：批次填充到最长样本、按相近长度分组，或拼满整行 [padded]</translation>
    </message>
    <message>
        <source>slices of the tokens that the cross-entropy runs over; the logits stay whole [1]</source>
        <translation>按 N 段 token 分块计算交叉熵；logits 保持完整 [1]</translation>
    </message>
    <message>
        <source>run the head slice by slice too, as torchtune does; with --loss-chunks</source>
        <translation>配合 --loss-chunks：输出头也逐段计算，与 torchtune 相同</translation>
    </message>
    <message>
        <source>library whose layers run: transformers, litgpt, llm-foundry, torchtitan, unsloth [transformers]</source>
        <translation>使用哪个库的层：transformers、litgpt、llm-foundry、torchtitan、unsloth [transformers]</translation>
    </message>
    <message>
        <source>run PyTorch&apos;s allocator with expandable_segments:True</source>
        <translation>PyTorch 分配器使用 expandable_segments:True</translation>
    </message>
    <message>
        <source>tokens per sample; 8k is 8192 [2048]</source>
        <translation>每个样本的词元数；8k 即 8192 [2048]</translation>
    </message>
    <message>
        <source>samples per GPU and forward pass; max finds the most that fit [1]</source>
        <translation>每块 GPU 每次前向的样本数；max：放得下的最大值 [1]</translation>
    </message>
    <message>
        <source>micro-batches per optimizer step [1; with pipeline stages 4 for each]</source>
        <translation>每个优化器步骤的微批数 [1；有阶段时为阶段数的 4 倍]</translation>
    </message>
    <message>
        <source>samples per optimizer step over all GPUs [follows from the others]</source>
        <translation>每个优化器步骤在所有 GPU 上的样本总数 [由其他选项得出]</translation>
    </message>
    <message>
        <source>folder on a local disk for offload to NVMe [/local_nvme]</source>
        <translation>本地磁盘上的路径，用于卸载到 NVMe [/local_nvme]</translation>
    </message>
    <message>
        <source>style of the ds_config: plain, hf-auto (&quot;auto&quot; for the HF Trainer), ms-swift [plain]</source>
        <translation>ds_config 的风格：plain、hf-auto（为 HF Trainer 填 &quot;auto&quot;）、ms-swift [plain]</translation>
    </message>
    <message>
        <source>unit of memory: 1024³ or 1000³ bytes [GiB]</source>
        <translation>容量单位：1024³ 或 1000³ 字节 [GiB]</translation>
    </message>
</context>
<context>
    <name>zplan::gui::Picker</name>
    <message>
        <source>Browse for a config.json</source>
        <translation>浏览选择 config.json</translation>
    </message>
    <message>
        <source>Show all</source>
        <translation>显示全部</translation>
    </message>
    <message>
        <source>Show all (Down)</source>
        <translation>显示全部（向下键）</translation>
    </message>
</context>
<context>
    <name>zplan::gui::Pictures</name>
    <message>
        <source>Page %1</source>
        <translation>第 %1 页</translation>
    </message>
    <message>
        <source>%1 is not written: there is nothing to draw</source>
        <translation>未写入 %1：没有可画的内容</translation>
    </message>
    <message>
        <source>%1 is not written: the name must end in one of %2</source>
        <translation>未写入 %1：文件名必须以下列之一结尾：%2</translation>
    </message>
    <message>
        <source>PNG picture (*.png)</source>
        <translation>PNG 图片 (*.png)</translation>
    </message>
    <message>
        <source>SVG drawing (*.svg)</source>
        <translation>SVG 图形 (*.svg)</translation>
    </message>
    <message>
        <source>PDF document (*.pdf)</source>
        <translation>PDF 文档 (*.pdf)</translation>
    </message>
    <message>
        <source>Nothing is printed: %1 cannot be used</source>
        <translation>没有打印：%1 无法使用</translation>
    </message>
    <message>
        <source>Printing failed before the last page</source>
        <translation>打印在最后一页之前失败</translation>
    </message>
</context>
<context>
    <name>zplan::gui::Planning</name>
    <message>
        <source>out of memory</source>
        <translation>内存不足</translation>
    </message>
    <message>
        <source>internal error: %1</source>
        <translation>内部错误：%1</translation>
    </message>
</context>
<context>
    <name>zplan::gui::ScatterChart</name>
    <message>
        <source>fits</source>
        <translation>放得下</translation>
    </message>
    <message>
        <source>does not fit</source>
        <translation>放不下</translation>
    </message>
    <message>
        <source>none is better at both</source>
        <translation>两方面都不被超过</translation>
    </message>
    <message>
        <source>needs more than is drawn</source>
        <translation>需求超出图的范围</translation>
    </message>
    <message>
        <source>Memory against speed</source>
        <translation>显存与速度</translation>
    </message>
    <message numerus="yes">
        <source>%n strategies, none fits</source>
        <translation>
            <numerusform>%n 种策略，都放不下</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>zplan::gui::ScenarioDelegate</name>
    <message>
        <source>baseline</source>
        <translation>基准</translation>
    </message>
</context>
<context>
    <name>zplan::gui::ScenarioHeading</name>
    <message>
        <source>Name of the scenario</source>
        <translation>方案名称</translation>
    </message>
    <message>
        <source>Shown strategy</source>
        <translation>所显示的策略</translation>
    </message>
    <message>
        <source>The plan that stands for this scenario in bars and tables</source>
        <translation>在条形图和表格中代表该方案的规划</translation>
    </message>
    <message>
        <source>Na&amp;me</source>
        <translation>名称(&amp;M)</translation>
    </message>
    <message>
        <source>Shown &amp;strategy</source>
        <translation>所显示的策略(&amp;S)</translation>
    </message>
    <message>
        <source>%1: %2</source>
        <translation>%1：%2</translation>
    </message>
    <message>
        <source>%1: not in the answer</source>
        <translation>%1：不在结果中</translation>
    </message>
    <message>
        <source>Best</source>
        <translation>最好</translation>
    </message>
    <message>
        <source>Best (%1)</source>
        <translation>最好（%1）</translation>
    </message>
    <message>
        <source>Nearest (%1)</source>
        <translation>最接近（%1）</translation>
    </message>
</context>
<context>
    <name>zplan::gui::ScenarioListModel</name>
    <message>
        <source>planning…</source>
        <translation>正在规划…</translation>
    </message>
    <message>
        <source>saved report: %1</source>
        <translation>保存的报告：%1</translation>
    </message>
    <message>
        <source>, baseline</source>
        <translation>，基准</translation>
    </message>
</context>
<context>
    <name>zplan::gui::Section</name>
    <message numerus="yes">
        <source>%1 · %n set</source>
        <translation>
            <numerusform>%1 · 已设 %n 项</numerusform>
        </translation>
    </message>
    <message>
        <source>unfolded</source>
        <translation>已展开</translation>
    </message>
    <message>
        <source>folded</source>
        <translation>已折叠</translation>
    </message>
</context>
<context>
    <name>zplan::gui::Session</name>
    <message>
        <source>scenario</source>
        <translation>方案</translation>
    </message>
    <message>
        <source>add %1</source>
        <translation>添加 %1</translation>
    </message>
    <message>
        <source>delete %1</source>
        <translation>删除 %1</translation>
    </message>
    <message>
        <source>rename %1</source>
        <translation>重命名 %1</translation>
    </message>
    <message>
        <source>move %1</source>
        <translation>移动 %1</translation>
    </message>
    <message>
        <source>change %1</source>
        <translation>修改 %1</translation>
    </message>
    <message>
        <source>choose %1</source>
        <translation>选用 %1</translation>
    </message>
    <message>
        <source>the recommended strategy</source>
        <translation>推荐的策略</translation>
    </message>
    <message>
        <source>compare %1</source>
        <translation>比较 %1</translation>
    </message>
    <message>
        <source>leave out %1</source>
        <translation>不比较 %1</translation>
    </message>
    <message>
        <source>pin the baseline</source>
        <translation>固定基准</translation>
    </message>
    <message>
        <source>show differences only</source>
        <translation>只看差异</translation>
    </message>
    <message>
        <source>show all lines</source>
        <translation>显示所有行</translation>
    </message>
    <message>
        <source> (before the change)</source>
        <translation>（改动之前）</translation>
    </message>
</context>
<context>
    <name>zplan::gui::StackModel</name>
    <message>
        <source>, short</source>
        <translation>，不足</translation>
    </message>
    <message>
        <source>, %1</source>
        <translation>, %1</translation>
    </message>
    <message>
        <source>A first estimate; the full answer follows.</source>
        <translation>这是初步估计；完整结果随后给出。</translation>
    </message>
    <message numerus="yes">
        <source>… and %n more</source>
        <translation>
            <numerusform>… 以及另外 %n 项</numerusform>
        </translation>
    </message>
    <message>
        <source>bytes of the algorithm that NCCL would choose, by link</source>
        <translation>NCCL 会选用的算法的字节数，按链路划分</translation>
    </message>
    <message>
        <source>%1, %2: %3</source>
        <translation>%1，%2：%3</translation>
    </message>
    <message>
        <source>%1; %2</source>
        <translation>%1；%2</translation>
    </message>
    <message>
        <source>%1 of %2 available; %3</source>
        <translation>%1，可用 %2；%3</translation>
    </message>
    <message>
        <source>parameters</source>
        <translation>参数</translation>
    </message>
    <message>
        <source>Weights on the device: what a rank keeps, and what it has gathered.</source>
        <translation>设备上的权重：本进程保存的，以及已收集的。</translation>
    </message>
    <message>
        <source>gradients</source>
        <translation>梯度</translation>
    </message>
    <message>
        <source>Gradients of trained parameters, whole or this rank&apos;s share.</source>
        <translation>可训练参数的梯度，完整的或本进程的分片。</translation>
    </message>
    <message>
        <source>optimizer states</source>
        <translation>优化器状态</translation>
    </message>
    <message>
        <source>Master weights and moments on the device.</source>
        <translation>设备上的主权重和动量。</translation>
    </message>
    <message>
        <source>activations</source>
        <translation>激活</translation>
    </message>
    <message>
        <source>What the forward keeps for the backward, and a layer at work.</source>
        <translation>前向为反向保留的张量，以及正在计算的层。</translation>
    </message>
    <message>
        <source>loss</source>
        <translation>损失</translation>
    </message>
    <message>
        <source>Logits, and what the loss makes of them.</source>
        <translation>logits 以及损失函数由它产生的张量。</translation>
    </message>
    <message>
        <source>communication buffers</source>
        <translation>通信缓冲区</translation>
    </message>
    <message>
        <source>Buckets in which gradients and parameters travel.</source>
        <translation>传输梯度和参数所用的桶。</translation>
    </message>
    <message>
        <source>temporaries</source>
        <translation>临时张量</translation>
    </message>
    <message>
        <source>What the optimizer step and the framework need for a moment.</source>
        <translation>优化器步骤和框架短暂需要的张量。</translation>
    </message>
    <message>
        <source>framework overhead</source>
        <translation>框架开销</translation>
    </message>
    <message>
        <source>CUDA context, NCCL&apos;s buffers, workspaces, and blocks rounded up.</source>
        <translation>CUDA 上下文、NCCL 缓冲区、工作区，以及块的向上取整。</translation>
    </message>
    <message>
        <source>allocator slack</source>
        <translation>分配器空隙</translation>
    </message>
    <message>
        <source>What PyTorch&apos;s caching allocator needs beyond what is live at the peak: required less peak.</source>
        <translation>PyTorch 缓存分配器在峰值活动量之外还需要的显存：需求减去峰值。</translation>
    </message>
    <message>
        <source>needs</source>
        <translation>需求</translation>
    </message>
    <message>
        <source>The smallest device on which it runs.</source>
        <translation>能够运行它的最小设备。</translation>
    </message>
    <message>
        <source>compute</source>
        <translation>计算</translation>
    </message>
    <message>
        <source>Kernels of the model.</source>
        <translation>模型的内核。</translation>
    </message>
    <message>
        <source>waiting for launches</source>
        <translation>等待内核启动</translation>
    </message>
    <message>
        <source>The device waits for the host to issue kernels.</source>
        <translation>设备等待主机发出内核。</translation>
    </message>
    <message>
        <source>exposed communication</source>
        <translation>未被掩盖的通信</translation>
    </message>
    <message>
        <source>Collectives that no computation hides.</source>
        <translation>没有被计算掩盖的集合通信。</translation>
    </message>
    <message>
        <source>offload</source>
        <translation>卸载</translation>
    </message>
    <message>
        <source>Transfers and the host&apos;s optimizer that nothing hides.</source>
        <translation>没有被掩盖的传输和主机端优化器。</translation>
    </message>
    <message>
        <source>optimizer</source>
        <translation>优化器</translation>
    </message>
    <message>
        <source>The optimizer step on the device.</source>
        <translation>设备上的优化器步骤。</translation>
    </message>
    <message>
        <source>step</source>
        <translation>一步时间</translation>
    </message>
    <message>
        <source>One optimizer step, all its micro-batches together.</source>
        <translation>一个优化器步骤，包含其所有微批。</translation>
    </message>
    <message>
        <source>forward</source>
        <translation>前向</translation>
    </message>
    <message>
        <source>What a GPU sends in the forward passes of a step, the loss included.</source>
        <translation>每块 GPU 在一步的前向（含损失）中发送的数据。</translation>
    </message>
    <message>
        <source>backward</source>
        <translation>反向</translation>
    </message>
    <message>
        <source>What a GPU sends in the backward passes of a step.</source>
        <translation>每块 GPU 在一步的反向中发送的数据。</translation>
    </message>
    <message>
        <source>optimizer step</source>
        <translation>优化器步骤</translation>
    </message>
    <message>
        <source>What a GPU sends in the optimizer step.</source>
        <translation>每块 GPU 在优化器步骤中发送的数据。</translation>
    </message>
    <message>
        <source>all</source>
        <translation>合计</translation>
    </message>
    <message>
        <source>What a GPU sends in a step, within its node and out of it.</source>
        <translation>每块 GPU 在一步中向节点内外发送的数据。</translation>
    </message>
</context>
<context>
    <name>zplan::gui::StartPage</name>
    <message>
        <source>What do you want to train?</source>
        <translation>要训练什么？</translation>
    </message>
    <message>
        <source>1. Which model?</source>
        <translation>1. 什么模型？</translation>
    </message>
    <message>
        <source>2. On which GPUs? A name, or the memory of each</source>
        <translation>2. 哪些 GPU？填名称，或每块的显存</translation>
    </message>
    <message>
        <source>3. How is it trained?</source>
        <translation>3. 怎样训练？</translation>
    </message>
    <message>
        <source>&amp;Plan it</source>
        <translation>规划(&amp;P)</translation>
    </message>
    <message>
        <source>&amp;Skip</source>
        <translation>跳过(&amp;S)</translation>
    </message>
    <message>
        <source>Begin with the example of the README (Escape)</source>
        <translation>从 README 的示例开始（Escape）</translation>
    </message>
    <message>
        <source>Or take an example:</source>
        <translation>或选择一个示例：</translation>
    </message>
    <message>
        <source>8B on 5 GPUs of 44 GiB, all weights</source>
        <translation>8B，5 块 44 GiB 的 GPU，全参数</translation>
    </message>
    <message>
        <source>8B with QLoRA on one RTX 4090</source>
        <translation>8B，QLoRA，1 块 RTX 4090</translation>
    </message>
    <message>
        <source>70B on 16 H100 in 2 nodes, all weights</source>
        <translation>70B，2 个节点的 16 块 H100，全参数</translation>
    </message>
</context>
<context>
    <name>zplan::gui::TimelineModel</name>
    <message>
        <source>initialisation</source>
        <translation>初始化</translation>
    </message>
    <message>
        <source>forward</source>
        <translation>前向</translation>
    </message>
    <message>
        <source>backward</source>
        <translation>反向</translation>
    </message>
    <message>
        <source>optimizer step</source>
        <translation>优化器步骤</translation>
    </message>
    <message>
        <source>loss</source>
        <translation>损失</translation>
    </message>
    <message>
        <source>%1 %2</source>
        <translation>%1 %2</translation>
    </message>
    <message>
        <source>%1, %2, %3: %4 on the device, of which PyTorch holds %5</source>
        <translation>%1，%2，%3：设备上 %4，其中 PyTorch 占用 %5</translation>
    </message>
    <message>
        <source>%1; the peak</source>
        <translation>%1；峰值</translation>
    </message>
    <message>
        <source>Plan</source>
        <translation>规划</translation>
    </message>
    <message>
        <source>Phase</source>
        <translation>阶段</translation>
    </message>
    <message>
        <source>What happens, in the order in which it happens.</source>
        <translation>发生的事情，按发生的先后排列。</translation>
    </message>
    <message>
        <source>Moment</source>
        <translation>时刻</translation>
    </message>
    <message>
        <source>Layer</source>
        <translation>层</translation>
    </message>
    <message>
        <source>The most that is live in PyTorch&apos;s allocator meanwhile, as handed out. Source: the run of the steady step (docs/memory.md).</source>
        <translation>在此期间 PyTorch 分配器中活动显存的最大值，按实际分出的大小计。来源：稳态步的推演 (docs/memory.md)。</translation>
    </message>
    <message>
        <source>In PyTorch</source>
        <translation>PyTorch 内</translation>
    </message>
    <message>
        <source>The same with what lies outside PyTorch: CUDA context and NCCL&apos;s buffers.</source>
        <translation>同上，再加上 PyTorch 之外的部分：CUDA 上下文和 NCCL 的缓冲区。</translation>
    </message>
    <message>
        <source>On the device</source>
        <translation>设备上</translation>
    </message>
</context>
<context>
    <name>zplan::gui::TradeoffModel</name>
    <message>
        <source>yes</source>
        <translation>是</translation>
    </message>
    <message>
        <source>no</source>
        <translation>否</translation>
    </message>
    <message>
        <source>%1, %2: needs %3, %4 tokens/s, %5</source>
        <translation>%1，%2：需要 %3，%4 词元/s，%5</translation>
    </message>
    <message>
        <source>%1, on the Pareto front</source>
        <translation>%1，位于 Pareto 前沿</translation>
    </message>
    <message>
        <source>A first estimate; the full answer follows.</source>
        <translation>这是初步估计；完整结果随后给出。</translation>
    </message>
    <message>
        <source>tokens/s</source>
        <translation>词元/s</translation>
    </message>
    <message>
        <source>Scenario</source>
        <translation>方案</translation>
    </message>
    <message>
        <source>Strategy</source>
        <translation>策略</translation>
    </message>
    <message>
        <source>The smallest device on which it runs. Source: PyTorch&apos;s caching allocator, simulated (docs/allocator.md).</source>
        <translation>能够运行它的最小显存。来源：对 PyTorch 缓存分配器的模拟 (docs/allocator.md)。</translation>
    </message>
    <message>
        <source>Needs per GPU</source>
        <translation>每块 GPU 的需求</translation>
    </message>
    <message>
        <source>Tokens of a step over its time. Source: docs/step-time.md.</source>
        <translation>一步的词元数除以一步的时间。来源：docs/step-time.md。</translation>
    </message>
    <message>
        <source>Tokens/s</source>
        <translation>词元/s</translation>
    </message>
    <message>
        <source>Verdict</source>
        <translation>结论</translation>
    </message>
    <message>
        <source>Among the strategies of its scenario that fit, none needs less and is as fast (Pareto front).</source>
        <translation>在该方案放得下的策略中，没有哪一种需求更小而速度不低于它（Pareto 前沿）。</translation>
    </message>
    <message>
        <source>On the front</source>
        <translation>在前沿上</translation>
    </message>
</context>
<context>
    <name>zplan::gui::ValidationLine</name>
    <message>
        <source>What the figures were validated against</source>
        <translation>数字与什么对照过</translation>
    </message>
    <message>
        <source>Validated: %1</source>
        <translation>对照：%1</translation>
    </message>
    <message>
        <source>%1
A click shows the details.</source>
        <translation>%1
单击显示具体内容。</translation>
    </message>
    <message>
        <source>unfolded</source>
        <translation>已展开</translation>
    </message>
    <message>
        <source>folded</source>
        <translation>已折叠</translation>
    </message>
</context>
<context>
    <name>zplan::gui::ValueEditor</name>
    <message>
        <source>…</source>
        <translation>…</translation>
    </message>
    <message>
        <source>JSON files (*.json);;All files (*)</source>
        <translation>JSON 文件 (*.json);;所有文件 (*)</translation>
    </message>
</context>
<context>
    <name>zplan::gui::VerdictBar</name>
    <message>
        <source>No scenario: add one on the left, or drop a config.json here</source>
        <translation>没有方案：请在左边添加一个，或把 config.json 拖到这里</translation>
    </message>
    <message>
        <source>%1: %2</source>
        <translation>%1：%2</translation>
    </message>
    <message>
        <source>%1: planning…</source>
        <translation>%1：正在规划…</translation>
    </message>
    <message>
        <source>. %1</source>
        <translation>。%1</translation>
    </message>
    <message>
        <source>Add what fits</source>
        <translation>添加放得下的</translation>
    </message>
    <message>
        <source>Adds the plan that would fit instead as a scenario</source>
        <translation>把放得下的规划添加为方案</translation>
    </message>
</context>
<context>
    <name>zplan::gui::WhyView</name>
    <message>
        <source>Model</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>Cluster</source>
        <translation>集群</translation>
    </message>
    <message>
        <source>Training</source>
        <translation>训练</translation>
    </message>
    <message>
        <source>Assumed</source>
        <translation>假定</translation>
    </message>
    <message>
        <source>Warning</source>
        <translation>警告</translation>
    </message>
    <message>
        <source>Room</source>
        <translation>余量</translation>
    </message>
    <message>
        <source>What fits instead: %1</source>
        <translation>放得下的替代：%1</translation>
    </message>
    <message>
        <source>What fits instead: %1 with %2</source>
        <translation>放得下的替代：%1，配合 %2</translation>
    </message>
    <message>
        <source>zplan recommends %1.</source>
        <translation>zplan 推荐 %1。</translation>
    </message>
    <message>
        <source>A report that was saved: %1</source>
        <translation>保存的报告：%1</translation>
    </message>
    <message>
        <source>Why not the others</source>
        <translation>为什么不用其他策略</translation>
    </message>
    <message>
        <source>Not possible</source>
        <translation>不可行</translation>
    </message>
    <message>
        <source>Why</source>
        <translation>原因</translation>
    </message>
    <message>
        <source>No plan yet</source>
        <translation>尚无规划</translation>
    </message>
</context>
<context>
    <name>zplan::gui::Words</name>
    <message>
        <source>available</source>
        <translation>可用</translation>
    </message>
    <message>
        <source>usable</source>
        <translation>可用上限</translation>
    </message>
    <message>
        <source>GPU</source>
        <translation>整卡</translation>
    </message>
    <message>
        <source>short beside the steps</source>
        <translation>训练步之外不足</translation>
    </message>
    <message>
        <source>short of host memory</source>
        <translation>主机内存不足</translation>
    </message>
    <message>
        <source>short by %1</source>
        <translation>不足 %1</translation>
    </message>
    <message>
        <source>source: %1</source>
        <translation>来源：%1</translation>
    </message>
</context>
</TS>
