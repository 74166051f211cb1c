//! A catalogue of fictional manga, the subject of simulated answers.

pub(super) struct Manga {
    pub(super) japanese: &'static str,
    pub(super) about_japanese: &'static str,
    pub(super) english: &'static str,
    pub(super) about_english: &'static str,
    pub(super) volumes: u32,
}

const fn manga(
    volumes: u32,
    japanese: &'static str,
    about_japanese: &'static str,
    english: &'static str,
    about_english: &'static str,
) -> Manga {
    Manga { japanese, about_japanese, english, about_english, volumes }
}

#[rustfmt::skip] // A table is read by its columns.
pub(super) const MANGA: [Manga; 12] = [
    manga(7,  "灯台のパン屋",     "岬の灯台で夜明け前にパンを焼く姉弟の", "The Lighthouse Bakery", "two siblings who bake before dawn on a cape"),
    manga(12, "第九防波堤",       "嵐の町を守る若い潜水士たちの", "Breakwater Nine", "young divers who guard a town of storms"),
    manga(3,  "猫背の天文台",     "星より猫を数える天文学者の", "The Stooping Observatory", "an astronomer who counts cats instead of stars"),
    manga(21, "鉄路と風鈴",       "廃線になった路線で、ひとり列車を走らせる車掌の", "Rails and Wind Chimes", "a conductor who runs a closed line alone"),
    manga(5,  "午前三時の将棋部", "眠れない生徒が集まる将棋部の", "The Shogi Club at Three", "sleepless pupils who meet over a board"),
    manga(9,  "苔の王国",         "庭石の裏に住む小さな王たちの", "Kingdom of Moss", "tiny kings who live behind a garden stone"),
    manga(15, "雨傘修理屋ハル",   "傘から持ち主の記憶を読む職人の", "Haru Mends Umbrellas", "a mender who reads memories from umbrellas"),
    manga(4,  "透明な給食当番",   "誰にも見えない転校生の", "The Invisible Lunch Duty", "a new pupil whom nobody can see"),
    manga(18, "深海郵便局",       "沈んだ手紙を届ける郵便配達員の", "Post Office of the Deep", "a carrier of letters that sank"),
    manga(6,  "屋上の養蜂家",     "都会の屋上で蜂を飼う老人と少女の", "Bees on the Roof", "an old man, a girl and the hives of a city roof"),
    manga(10, "紙の飛行学校",     "紙飛行機で空を目指す子どもたちの", "The Paper Flight School", "children who reach the sky on folded paper"),
    manga(2,  "最後の銭湯絵師",   "富士山を描けなくなった絵師の", "The Last Bathhouse Painter", "a painter who can no longer paint the mountain"),
];
