"""Which tools would a realistic catalog hold, and which of them does a search mean?

The queries were written from what a model or a person would type, not from the descriptions: some
share no word with the tool that they mean, and no ranking by words can find those.
"""

from __future__ import annotations

from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory

TABLE = """
get_weather | weather | Current weather of a place: temperature, humidity, wind. | city: Name of the city; units: metric or imperial
get_weather_forecast | weather | Weather forecast for the next days of a place, with the chance of rain. | city: Name of the city; days: How many days ahead
get_air_quality | weather, health | Air quality index and pollutants at a location. | latitude; longitude
get_sunrise_sunset | weather, time | When the sun rises and sets at a place on a date. | latitude; longitude; date
list_severe_weather_alerts | weather, safety | Storm, flood and heat warnings that are in force for a region. | region: Two-letter code
github_create_issue | github, issues | Opens an issue in a repository. | repository: owner/name; title; body: Markdown text; labels
github_list_issues | github, issues | Lists the issues of a repository. | repository; state: open, closed or all; assignee
github_close_issue | github, issues | Closes an issue with an optional comment. | repository; number: Issue number
github_add_comment | github, issues | Adds a comment to an issue or a pull request. | repository; number; body
github_create_pull_request | github, code-review | Opens a pull request from one branch into another. | repository; head: Branch with the changes; base: Branch to merge into; title
github_merge_pull_request | github, code-review | Merges a pull request once its checks have passed. | repository; number; method: merge, squash or rebase
github_list_pull_requests | github, code-review | Lists pull requests that await review. | repository; state
github_get_file | github, code | Reads one file of a repository at a branch, tag or commit. | repository; path; ref
github_search_code | github, code | Searches source code over all repositories of an organisation. | query; language; organisation
github_search_repositories | github, code | Finds public repositories by topic, language and number of stars. | query; sort
github_create_release | github, release | Publishes a release with notes from a tag. | repository; tag; notes
github_list_workflow_runs | github, ci | Shows the recent runs of a continuous integration workflow and whether they failed. | repository; workflow
github_rerun_workflow | github, ci | Starts a failed workflow run again. | repository; run_id
git_commit | git, code | Records staged changes in the local repository with a message. | message; all: Stage changed files first
git_diff | git, code | Shows what changed between two commits or in the working tree. | from; to; path
git_log | git, code | History of commits, newest first. | path; author; since
git_blame | git, code | Tells who last changed each line of a file. | path; revision
gitlab_trigger_pipeline | gitlab, ci | Runs a CI/CD pipeline on a branch. | project_id; ref; variables
jira_create_ticket | jira, issues | Creates a ticket in a Jira project. | project_key; summary; issue_type: Bug, Story or Task; priority
jira_search_tickets | jira, issues | Searches tickets with a JQL expression. | jql; max_results
jira_transition_ticket | jira, issues | Moves a ticket to another status of its workflow. | ticket_key; status
jira_assign_ticket | jira, issues | Hands a ticket to a person. | ticket_key; account_id
linear_create_task | linear, issues | Adds a task to a Linear team's backlog. | team; title; estimate
send_email | email, notification | Sends an e-mail with text and attachments. | to: Addresses of the recipients; subject; body; attachments
read_inbox | email | Reads the newest mails of the inbox. | unread_only; limit
search_email | email | Finds mails by sender, subject, date or text. | query; folder
reply_to_email | email | Answers a mail in its thread. | message_id; body
archive_email | email | Takes a mail out of the inbox without deleting it. | message_id
create_email_draft | email | Saves a mail that is not sent yet. | to; subject; body
slack_post_message | slack, chat, notification | Posts a message to a Slack channel or thread. | channel; text; thread_ts
slack_list_channels | slack, chat | Lists the channels of the workspace. | types; limit
slack_upload_file | slack, chat | Shares a file in a channel. | channel; path; comment
slack_set_status | slack, chat | Sets the user's status text and emoji. | text; emoji; expiration
send_sms | phone, notification | Sends a text message to a mobile phone. | phone_number: In E.164 form; text
make_phone_call | phone | Calls a number and reads a text aloud. | phone_number; text; voice
teams_send_message | teams, chat, notification | Writes into a Microsoft Teams chat. | chat_id; text
discord_send_message | discord, chat, notification | Posts to a Discord channel by its webhook. | webhook_url; content
send_push_notification | mobile, notification | Sends a push notification to devices of a user. | user_id; title; body
calendar_create_event | calendar | Puts an appointment into the calendar and invites people. | title; start; end; attendees; location
calendar_list_events | calendar | Lists what is in the calendar between two times. | start; end; calendar_id
calendar_delete_event | calendar | Cancels an appointment and tells the attendees. | event_id; notify
calendar_find_free_slot | calendar | Finds a time at which all participants are free. | attendees; duration: Minutes; earliest; latest
calendar_update_event | calendar | Moves an appointment or changes who attends. | event_id; start; end
zoom_create_meeting | meetings, video | Schedules a Zoom video call and returns the link to join. | topic; start; duration
zoom_get_recording | meetings, video | Link to the recording and transcript of a past meeting. | meeting_id
todo_add | tasks | Adds an item to the to-do list. | text; due; list
todo_complete | tasks | Ticks an item of the to-do list off. | item_id
todo_list | tasks | Shows open items of the to-do list. | list; due_before
set_reminder | tasks, time | Reminds the user of something at a time. | text; at
start_timer | time | Counts down and rings at the end. | seconds; label
get_current_time | time | The time and date now in a time zone. | timezone: IANA name
convert_timezone | time | Converts a time from one time zone to another. | time; from_zone; to_zone
calculate_date_difference | time | Days, weeks or working days between two dates. | start; end; unit
calculator | math | Works out an arithmetic expression exactly. | expression
solve_equation | math | Solves an equation or a system of equations symbolically. | equations; variables
plot_function | math, chart | Draws the graph of a function. | expression; from; to
statistics_summary | math, statistics | Mean, median, deviation and quantiles of a list of numbers. | values
linear_regression | math, statistics | Fits a straight line through points. | x; y
convert_units | math | Converts lengths, masses, volumes and temperatures between units. | value; from_unit; to_unit
convert_currency | finance | Converts an amount of money at today's exchange rate. | amount; from: ISO code such as USD; to
get_exchange_rate | finance | Exchange rate between two currencies, today or on a past date. | base; quote; date
get_stock_price | finance, stocks | Latest price of a share on an exchange. | symbol: Ticker such as AAPL
get_stock_history | finance, stocks | Daily open, high, low, close and volume of a share. | symbol; from; to
get_crypto_price | finance, crypto | Price of a cryptocurrency such as bitcoin. | coin; currency
get_company_financials | finance | Balance sheet, income statement and cash flow of a listed company. | symbol; year
calculate_loan_payment | finance, math | Monthly payment and total interest of a mortgage or loan. | principal; rate; years
stripe_create_charge | payments | Charges a customer's card. | customer_id; amount: In cents; currency
stripe_refund_charge | payments | Pays a charge back, in part or whole. | charge_id; amount
stripe_list_invoices | payments, invoices | Lists a customer's invoices. | customer_id; status
stripe_create_subscription | payments | Subscribes a customer to a recurring price. | customer_id; price_id
create_invoice | invoices, accounting | Writes an invoice as PDF and books it. | customer; lines; due
record_expense | accounting | Books an expense with its receipt. | amount; category; receipt
list_transactions | banking | Lists the transactions of a bank account. | account; from; to
transfer_money | banking, payments | Moves money from one account to another. | from_account; to_iban; amount
get_account_balance | banking | How much money is in a bank account. | account
sql_query | database | Runs a read-only SQL statement and returns the rows. | statement; database; limit
sql_list_tables | database | Lists the tables of a database with their columns. | database; schema
sql_explain | database | Shows the execution plan of a statement and where it is slow. | statement
database_backup | database, operations | Makes a dump of a database. | database; target
mongodb_find | database, mongodb | Finds documents of a collection that match a filter. | collection; filter; limit
mongodb_insert | database, mongodb | Inserts documents into a collection. | collection; documents
redis_get | database, cache | Reads the value of a key from Redis. | key
redis_set | database, cache | Writes a value with an optional expiry to Redis. | key; value; ttl
elasticsearch_search | database, search | Full-text search in an Elasticsearch index. | index; query; size
vector_search | ai, search | Finds passages that are near in meaning, by embedding. | text; collection; top_k
bigquery_run | database, analytics | Runs a query over the warehouse and estimates its cost. | statement; dry_run
read_file | files | Reads a text file. | path; encoding
write_file | files | Writes text into a file, making it when it is not there. | path; content
append_to_file | files | Adds lines at the end of a file. | path; content
delete_file | files | Deletes a file for good. | path
move_file | files | Moves or renames a file. | source; destination
copy_file | files | Copies a file. | source; destination
list_directory | files | Lists what a folder holds. | path; recursive
find_files | files, search | Finds files whose name matches a pattern. | pattern; root
grep_files | files, search | Finds lines that match a regular expression in files. | pattern; path; ignore_case
get_disk_usage | files, operations | How much space folders take and how much is left. | path
zip_files | files, archive | Packs files into a ZIP archive. | paths; target
unzip_archive | files, archive | Unpacks a ZIP or TAR archive. | path; target
read_pdf | documents | Extracts text and tables from a PDF. | path; pages
merge_pdfs | documents | Joins several PDF documents into one. | paths; target
convert_document | documents | Converts between Word, PDF, Markdown and HTML. | path; target_format
read_spreadsheet | documents, excel | Reads cells of an Excel or CSV sheet. | path; sheet; range
write_spreadsheet | documents, excel | Writes rows into an Excel sheet. | path; sheet; rows
create_presentation | documents | Makes slides from an outline. | outline; theme
ocr_image | images, documents | Recognises the text in a scanned page or photo. | path; language
resize_image | images | Changes the width and height of a picture. | path; width; height
crop_image | images | Cuts a part out of a picture. | path; box
generate_image | images, ai | Draws a picture from a description. | prompt; size; style
describe_image | images, ai | Says in words what a picture shows. | path; detail
remove_background | images | Makes everything but the subject of a photo transparent. | path
detect_faces | images, ai | Finds faces in a photo. | path
generate_qr_code | images | Makes a QR code from a text or link. | text; size
transcribe_audio | audio, ai | Turns speech into text with time stamps. | path; language
text_to_speech | audio, ai | Reads a text aloud in a chosen voice. | text; voice; format
convert_audio | audio | Converts between MP3, WAV and FLAC. | path; target_format
trim_video | video | Cuts a clip out of a video. | path; start; end
extract_video_frames | video, images | Saves stills of a video at an interval. | path; interval
download_youtube_subtitles | video | Fetches the captions of a YouTube video. | url; language
translate_text | language, ai | Translates a text into another language. | text; target_language; source_language
detect_language | language | Tells which language a text is written in. | text
summarize_text | language, ai | Shortens a long text to its main points. | text; length
check_grammar | language | Finds spelling and grammar mistakes. | text; language
analyze_sentiment | language, ai | Says whether a text is positive, negative or neutral. | text
extract_entities | language, ai | Finds names of people, places and organisations in a text. | text
classify_text | language, ai | Sorts a text into one of given classes. | text; labels
lookup_dictionary | language | Meaning, pronunciation and examples of a word. | word; language
find_synonyms | language | Words of the same meaning. | word
web_search | web, search | Searches the web and returns titles, links and snippets. | query; count
fetch_url | web | Downloads a page and returns its readable text. | url
take_screenshot | web, browser | Takes a picture of a web page. | url; full_page
browser_click | web, browser | Clicks an element of the open page. | selector
browser_fill_form | web, browser | Types values into the fields of a form. | fields
http_request | web, api | Sends an HTTP request with any method, headers and body. | url; method; headers; body
rss_read_feed | web, news | Newest entries of an RSS or Atom feed. | url
get_news_headlines | news | Top headlines by topic or country. | topic; country
search_news | news | Articles of newspapers about a subject. | query; from; to
wikipedia_summary | knowledge | First paragraph of an encyclopedia article. | title; language
arxiv_search | science, papers | Finds preprints on arXiv. | query; category
pubmed_search | science, papers, health | Finds medical literature. | query; year
get_citation | science, papers | Formats the reference of a paper by its DOI. | doi; style
wolfram_query | science, math | Answers a factual or mathematical question by computation. | input
geocode_address | maps | Coordinates of an address. | address
reverse_geocode | maps | Address at coordinates. | latitude; longitude
get_directions | maps, travel | Route and travel time between two places by car, bike, foot or train. | origin; destination; mode
find_places_nearby | maps | Restaurants, shops and sights around a point. | latitude; longitude; kind; radius
get_elevation | maps | Height above sea level. | latitude; longitude
search_flights | travel | Flights between two airports with prices. | from; to; date; passengers
book_flight | travel | Books a seat on a flight. | offer_id; passengers
get_flight_status | travel | Whether a flight is on time, its gate and delay. | flight_number; date
search_hotels | travel | Free rooms in a town with price and rating. | city; check_in; check_out; guests
book_hotel_room | travel | Reserves a room. | offer_id; guest
search_trains | travel | Train connections between stations. | from; to; departure
rent_car | travel | Reserves a rental car. | pickup; dropoff; class
order_taxi | travel | Calls a cab to an address. | pickup; destination
reserve_table | restaurants | Books a table at a restaurant. | restaurant; time; people
order_food | restaurants | Orders a meal for delivery. | restaurant; items; address
find_recipe | food | Recipes that use given ingredients. | ingredients; diet
get_nutrition | food, health | Calories and nutrients of a food. | food; grams
log_workout | health, sport | Records a training session. | activity; minutes
get_sleep_report | health | How long and how well the user slept. | date
book_doctor_appointment | health | Makes an appointment at a practice. | practice; time; reason
check_drug_interactions | health | Whether medicines may be taken together. | drugs
kubernetes_list_pods | kubernetes, operations | Lists pods of a namespace with their state. | namespace; selector
kubernetes_get_logs | kubernetes, operations, logs | Newest log lines of a pod. | namespace; pod; container
kubernetes_scale_deployment | kubernetes, operations | Sets how many replicas of a deployment run. | namespace; deployment; replicas
kubernetes_restart_deployment | kubernetes, operations | Rolls all pods of a deployment over. | namespace; deployment
docker_build | docker, operations | Builds an image from a Dockerfile. | path; tag
docker_run | docker, operations | Starts a container. | image; command; ports
docker_list_containers | docker, operations | Containers that run on this host. | all
aws_s3_upload | aws, storage | Uploads a file to an S3 bucket. | bucket; key; path
aws_s3_list | aws, storage | Lists the objects in an S3 bucket. | bucket; prefix
aws_ec2_start_instance | aws, operations | Starts a virtual machine. | instance_id; region
aws_ec2_stop_instance | aws, operations | Stops a virtual machine. | instance_id; region
aws_lambda_invoke | aws | Calls a serverless function. | function_name; payload
aws_cost_report | aws, finance | What the cloud account cost by service and month. | from; to
terraform_plan | operations | Shows what an infrastructure change would do. | path
terraform_apply | operations | Carries an infrastructure change out. | path; plan
ssh_run_command | operations | Runs a command on a remote server. | host; command
ping_host | network | Whether a host answers and how fast. | host; count
dns_lookup | network | Records of a domain name. | domain; type: A, AAAA, MX or TXT
whois_domain | network | Who registered a domain and until when. | domain
check_ssl_certificate | network, security | When the TLS certificate of a site ends and whether it is valid. | host
scan_ports | network, security | Which ports of a host are open. | host; range
generate_password | security | Makes a random password. | length; symbols
hash_text | security | SHA-256 or other digest of a text. | text; algorithm
rotate_api_key | security | Replaces an API key by a new one. | service
scan_vulnerabilities | security, code | Known weaknesses in the packages that a project uses. | path
query_prometheus | monitoring, metrics | Evaluates a PromQL expression over time. | expression; from; to; step
list_alerts | monitoring | Alerts that fire at present. | severity
silence_alert | monitoring | Mutes an alert for some time. | alert_id; minutes
search_logs | monitoring, logs | Finds log lines of services by text and time. | query; from; to; service
create_incident | monitoring, on-call | Opens an incident and pages whoever is on duty. | title; severity
get_on_call | monitoring, on-call | Who is on duty for a team. | team
run_python | code | Runs a piece of Python in a sandbox. | source; timeout
run_tests | code, ci | Runs the test suite of a project. | path; filter
format_code | code | Formats source code by the rules of its language. | path; language
lint_code | code | Finds likely mistakes in source code. | path
install_package | code | Installs a dependency. | name; version
json_validate | data | Checks a JSON value against a schema. | value; schema
json_query | data | Picks values out of JSON with JMESPath. | value; expression
csv_to_json | data | Turns a CSV table into JSON. | path; delimiter
make_chart | data, chart | Draws a bar, line or pie chart from a table. | data; kind; title
crm_find_contact | crm, sales | Finds a person or company in the CRM. | name; email
crm_create_lead | crm, sales | Adds a sales lead. | name; company; source
crm_update_deal | crm, sales | Changes stage or amount of a deal. | deal_id; stage; amount
shopify_list_orders | shop, sales | Orders of the web shop. | status; since
shopify_update_stock | shop | Sets how many pieces of a product are in stock. | sku; quantity
track_parcel | shipping | Where a parcel is and when it arrives. | tracking_number; carrier
create_shipping_label | shipping | Makes the label for a parcel. | address; weight
zendesk_create_ticket | support | Opens a customer support request. | subject; description; requester
zendesk_list_tickets | support | Support requests that wait for an answer. | status; assignee
hr_request_leave | hr | Asks for days of holiday. | from; to; kind
hr_list_employees | hr | People of a department with their roles. | department
hr_get_payslip | hr, finance | Salary statement of a month. | month
notion_create_page | notes, notion | Adds a page to a Notion workspace. | parent; title; content
notion_search | notes, notion, search | Finds pages in Notion. | query
save_note | notes | Keeps a note. | title; text; tags
search_notes | notes, search | Finds notes by their text. | query
spotify_play | music | Plays a song, album or playlist. | query; device
spotify_create_playlist | music | Makes a playlist of songs. | name; tracks
lights_set | smart-home | Switches lamps on or off and dims them. | room; brightness; colour
thermostat_set | smart-home | Sets the heating of a room. | room; temperature
lock_door | smart-home, security | Locks or unlocks a door. | door; state
twitter_post | social | Publishes a short post. | text; media
linkedin_share | social | Shares a post with professional contacts. | text; link
find_jobs | jobs | Open positions by title and town. | title; city
查询天气 | 天气 | 查询某个城市的当前天气，包括温度、湿度和风力。 | 城市: 城市名称
天气预报 | 天气 | 查询未来几天的天气预报和降雨概率。 | 城市; 天数
快递查询 | 物流 | 根据快递单号查询包裹的物流状态。 | 单号; 快递公司
汇率换算 | 金融 | 按照今天的汇率把一种货币换算成另一种货币。 | 金额; 源货币; 目标货币
股票行情 | 金融, 股票 | 获取一只股票的最新价格和涨跌幅。 | 代码
文本翻译 | 语言 | 把一段文字翻译成其他语言。 | 文本; 目标语言
生成图片 | 图像, AI | 根据文字描述生成一张图片。 | 提示词; 尺寸
图片识别 | 图像, AI | 识别图片中的文字和物体。 | 路径
语音转文字 | 音频, AI | 把录音转换成带时间的文字。 | 文件
发送邮件 | 邮件, 通知 | 给一个或多个收件人发送电子邮件。 | 收件人; 主题; 正文
发送短信 | 通知 | 向手机号码发送短信。 | 手机号; 内容
创建日程 | 日历 | 在日历中新建会议并邀请参加者。 | 标题; 开始时间; 结束时间
查询日程 | 日历 | 列出日历中一段时间内的安排。 | 开始; 结束
火车票查询 | 出行 | 查询两个车站之间的火车车次和余票。 | 出发站; 到达站; 日期
航班查询 | 出行 | 查询航班的起飞、到达和延误情况。 | 航班号
酒店预订 | 出行 | 预订某个城市的酒店房间。 | 城市; 入住; 离店
路线规划 | 地图 | 规划两地之间驾车、骑行或步行的路线。 | 起点; 终点
搜索附近 | 地图 | 搜索附近的餐厅、商店和景点。 | 位置; 类型
网页搜索 | 网络 | 在互联网上搜索网页并返回标题和链接。 | 关键词
读取文件 | 文件 | 读取本地文本文件的内容。 | 路径
数据库查询 | 数据库 | 执行只读的 SQL 语句并返回结果。 | 语句
数据可视化 | 数据 | 用表格数据绘制柱状图、折线图或饼图。 | 数据; 类型
请假申请 | 人事 | 提交休假或病假申请。 | 开始; 结束; 原因
提醒设置 | 时间 | 在指定的时间提醒用户。 | 内容; 时间
"""  # noqa: E501 - a table is read by line

JUDGED: dict[str, tuple[str, ...]] = {
    "what is the temperature in Paris right now": ("get_weather",),
    "will it rain tomorrow": ("get_weather_forecast",),
    "storm warnings": ("list_severe_weather_alerts",),
    "report a bug on GitHub": ("github_create_issue",),
    "open a PR": ("github_create_pull_request",),
    "merge pull request": ("github_merge_pull_request",),
    "github search code": ("github_search_code",),
    "getWeather": ("get_weather",),
    "github-create-issue": ("github_create_issue",),
    "who changed this line of the file": ("git_blame",),
    "why did the CI workflow fail": ("github_list_workflow_runs",),
    "move jira ticket to done": ("jira_transition_ticket",),
    "send an email to a colleague": ("send_email",),
    "e-mail with attachment": ("send_email",),
    "unread mails": ("read_inbox",),
    "post in slack channel": ("slack_post_message",),
    "text message to a phone": ("send_sms",),
    "schedule a meeting": ("calendar_create_event", "zoom_create_meeting"),
    "when are we all free to meet": ("calendar_find_free_slot",),
    "cancel my appointment": ("calendar_delete_event",),
    "meeting transcript": ("zoom_get_recording",),
    "remind me to call mum": ("set_reminder",),
    "what time is it in Tokyo": ("get_current_time",),
    "convert dollars to euros": ("convert_currency", "get_exchange_rate"),
    "currencies exchange rates": ("get_exchange_rate", "convert_currency"),
    "miles to kilometres": ("convert_units",),
    "share price of Apple": ("get_stock_price",),
    "bitcoin": ("get_crypto_price",),
    "mortgage calculator": ("calculate_loan_payment",),
    "refund a customer": ("stripe_refund_charge",),
    "bank balance": ("get_account_balance",),
    "run SQL": ("sql_query", "bigquery_run"),
    "slow database query": ("sql_explain",),
    "what columns does the table have": ("sql_list_tables",),
    "rename a file": ("move_file",),
    "search text in files": ("grep_files",),
    "free disk space": ("get_disk_usage",),
    "extract tables from pdf": ("read_pdf",),
    "excel": ("read_spreadsheet", "write_spreadsheet"),
    "scan a photo for text": ("ocr_image",),
    "make a picture of a cat": ("generate_image",),
    "speech to text": ("transcribe_audio",),
    "translation into French": ("translate_text",),
    "tranlate": ("translate_text",),
    "summarise an article": ("summarize_text",),
    "is this review positive": ("analyze_sentiment",),
    "screenshot of website": ("take_screenshot",),
    "latest news": ("get_news_headlines", "search_news"),
    "scientific papers about cancer": ("pubmed_search", "arxiv_search"),
    "driving directions": ("get_directions",),
    "restaurants near me": ("find_places_nearby",),
    "cheap flights to Rome": ("search_flights",),
    "is my flight delayed": ("get_flight_status",),
    "hotel reservation": ("book_hotel_room", "search_hotels"),
    "how many calories": ("get_nutrition",),
    "pod logs": ("kubernetes_get_logs",),
    "scale up replicas": ("kubernetes_scale_deployment",),
    "upload to s3": ("aws_s3_upload",),
    "shut down an EC2 machine": ("aws_ec2_stop_instance",),
    "cloud costs last month": ("aws_cost_report",),
    "certificate expiry": ("check_ssl_certificate",),
    "DNS records of a domain": ("dns_lookup",),
    "who is on duty": ("get_on_call",),
    "mute alert": ("silence_alert",),
    "execute python code": ("run_python",),
    "repo": ("github_search_repositories",),
    "pie chart": ("make_chart",),
    "where is my package": ("track_parcel",),
    "vacation request": ("hr_request_leave",),
    "turn off the lights": ("lights_set",),
    "kuberntes pods": ("kubernetes_list_pods",),
    "play a song": ("spotify_play",),
    "北京今天天气怎么样": ("查询天气", "天气预报"),
    "未来三天会下雨吗": ("天气预报",),
    "帮我查一下快递": ("快递查询",),
    "美元换人民币汇率": ("汇率换算",),
    "股票价格": ("股票行情",),
    "把这段话翻译成英文": ("文本翻译",),
    "画一张图片": ("生成图片",),
    "识别图片里的文字": ("图片识别",),
    "录音转文字": ("语音转文字",),
    "发邮件给同事": ("发送邮件",),
    "发短信": ("发送短信",),
    "新建会议": ("创建日程",),
    "明天有什么安排": ("查询日程",),
    "订酒店": ("酒店预订",),
    "去上海的火车票": ("火车票查询",),
    "航班延误了吗": ("航班查询",),
    "附近的餐厅": ("搜索附近",),
    "怎么开车去机场": ("路线规划",),
    "上网搜索": ("网页搜索",),
    "用SQL查数据库": ("数据库查询",),
    "我想请假": ("请假申请",),
    "柱状图": ("数据可视化",),
}
"""What somebody types -> the tools that they would be glad to be shown."""


def catalog() -> list[Tool]:
    """The tools of the table."""
    return [_tool(row) for row in TABLE.strip().splitlines()]


def _tool(row: str) -> Tool:
    name, tags, description, parameters = (cell.strip() for cell in row.split("|"))
    return Tool(
        id=name,
        name=name,
        version="1.0.0",
        description=description,
        category=ToolCategory.CUSTOM,
        tags=[tag.strip() for tag in tags.split(",")],
        parameters=[_parameter(cell) for cell in parameters.split(";")],
        implementation_config={"type": "builtin", "handler": "echo"},
    )


def _parameter(cell: str) -> ToolParameter:
    name, _, description = cell.partition(":")
    return ToolParameter(name.strip(), "string", description=description.strip())
